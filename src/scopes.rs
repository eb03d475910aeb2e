//! The parts of the keys that sources list by themselves: what every queue asks of them.

use crate::builder::ScopeDecl;
use crate::error::{BeginReplaceError, BoxError, ReplaceErrorKind};

/// The index of a scope that was declared under this name; none for all keys.
pub(crate) fn find<K>(
    scopes: &[ScopeDecl<K>],
    name: Option<&str>,
) -> Result<Option<usize>, BeginReplaceError> {
    let Some(name) = name else { return Ok(None) };
    match scopes.iter().position(|scope| scope.name == name) {
        Some(index) => Ok(Some(index)),
        None => Err(BeginReplaceError::UnknownScope(name.to_owned())),
    }
}

/// The name of the scope, if the key is not in it.
pub(crate) fn check<K>(scopes: &[ScopeDecl<K>], scope: Option<usize>, key: &K) -> Result<(), String> {
    match scope.map(|scope| &scopes[scope]) {
        Some(scope) if !(scope.holds)(key) => Err(scope.name.clone()),
        _ => Ok(()),
    }
}

/// Checks a whole list before anything of it is applied: first that every key is in the scope, then what `transform` makes
/// of the objects.
pub(crate) fn check_list<K, V>(
    scopes: &[ScopeDecl<K>],
    scope: Option<usize>,
    list: &mut [(K, V)],
    transform: Option<impl Fn(&mut V) -> Result<(), BoxError>>,
) -> Result<(), ReplaceErrorKind> {
    for (index, (key, _)) in list.iter().enumerate() {
        check(scopes, scope, key).map_err(|scope| ReplaceErrorKind::OutOfScope { index, scope })?;
    }
    let Some(transform) = transform else { return Ok(()) };
    for (index, (_, value)) in list.iter_mut().enumerate() {
        transform(value).map_err(|source| ReplaceErrorKind::Transform { index, source })?;
    }
    Ok(())
}
