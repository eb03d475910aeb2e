//! Something between a client and a server that cuts connections.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes connections on, until they are cut.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    /// How often everything was cut, and whether nobody comes through.
    state: watch::Sender<(u64, bool)>,
    listener: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        let (state, seen) = watch::channel((0, false));
        let server = server.to_owned();
        let listener = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server.clone(), seen.clone()));
            }
        });
        Proxy { address, state, listener }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All connections end now. New ones are let through.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|(cuts, _)| *cuts += 1);
    }

    /// All connections end now, and new ones at once, until [`open`](Self::open).
    pub(crate) fn close(&self) {
        self.state.send_modify(|(cuts, closed)| (*cuts, *closed) = (*cuts + 1, true));
    }

    pub(crate) fn open(&self) {
        self.state.send_modify(|(_, closed)| *closed = false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn pass(mut client: TcpStream, server: String, mut state: watch::Receiver<(u64, bool)>) {
    let (cuts, closed) = *state.borrow_and_update();
    if closed {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = state.wait_for(|(now, _)| *now != cuts) => {}
    }
}
