//! From a peer's name to its type: for workloads that are not in [`Entry`](super::Entry).

use super::{Baseline, ClientGo, FairParking, Lists, Papaya, Parking, Peer, RealFifo, Sharded, ShardedMutex};

/// Something to be done with a peer of whatever type.
pub trait Visit {
    type Out;

    fn visit<P: Peer>(self) -> Self::Out;
}

/// The same with one that takes lists.
pub trait VisitLists {
    type Out;

    fn visit<P: Lists>(self) -> Self::Out;
}

/// `None`: there is no peer of this name.
pub fn visit<V: Visit>(id: &str, visit: V) -> Option<V::Out> {
    Some(match id {
        "sharded" => visit.visit::<Sharded>(),
        "B0" => visit.visit::<Baseline>(),
        "B0p" => visit.visit::<ClientGo>(),
        "B1" => visit.visit::<Parking>(),
        "B1f" => visit.visit::<FairParking>(),
        "B2" => visit.visit::<Papaya>(),
        "B3" => visit.visit::<ShardedMutex>(),
        "B4" => visit.visit::<RealFifo>(),
        _ => return None,
    })
}

/// `None`: there is none, or it takes no lists.
pub fn visit_lists<V: VisitLists>(id: &str, visit: V) -> Option<V::Out> {
    Some(match id {
        "sharded" => visit.visit::<Sharded>(),
        "B0" => visit.visit::<Baseline>(),
        "B1" => visit.visit::<Parking>(),
        _ => return None,
    })
}
