//! Answers that are errors.

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// The first page of a list, or all of it.
    List,
    /// A further page of a list.
    Page,
    /// A watch, also one that begins with a list.
    Watch,
    /// One object.
    Get,
    /// A new object.
    Create,
    /// An object in the place of another.
    Update,
    /// A part of an object.
    Patch,
    /// No object any more.
    Delete,
}

/// An answer that is an error.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) retry_after: Option<u32>,
    pub(crate) is_plain: bool,
    pub(crate) is_in_stream: bool,
    pub(crate) is_broken: bool,
    pub(crate) is_silent: bool,
}

impl Failure {
    /// A `Status` of this code.
    #[must_use]
    pub fn status(code: u16, reason: &'static str) -> Self {
        Failure {
            code,
            reason,
            message: format!("the server was told to answer {code} {reason}"),
            retry_after: None,
            is_plain: false,
            is_in_stream: false,
            is_broken: false,
            is_silent: false,
        }
    }

    /// 500.
    #[must_use]
    pub fn internal() -> Self {
        Self::status(500, "InternalError")
    }

    /// 429 as the server's limit of requests in flight has it: no `Status`, a header alone.
    #[must_use]
    pub fn too_many_requests(retry_after: u32) -> Self {
        let failure = Self::status(429, "TooManyRequests").retry_after(retry_after).plain();
        Failure { message: "Too many requests, please try again later.".to_owned(), ..failure }
    }

    /// 410, as for a version that is gone.
    #[must_use]
    pub fn gone() -> Self {
        Failure { message: "too old resource version".to_owned(), ..Self::status(410, "Expired") }
    }

    /// No answer at all: the connection breaks.
    #[must_use]
    pub fn broken() -> Self {
        Failure { is_broken: true, ..Self::status(0, "") }
    }

    /// An answer whose body never comes: a connection that has died, and nobody has noticed.
    #[must_use]
    pub fn silent() -> Self {
        Failure { is_silent: true, ..Self::status(200, "") }
    }

    /// Asks not to come back before so many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Failure { retry_after: Some(seconds), ..self }
    }

    /// As a text, as proxies and limits of requests in flight answer.
    #[must_use]
    pub fn plain(self) -> Self {
        Failure { is_plain: true, ..self }
    }

    /// For a watch: it begins, and this is its first event.
    #[must_use]
    pub fn in_stream(self) -> Self {
        Failure { is_in_stream: true, ..self }
    }
}
