//! A kube-apiserver and its etcd, for as long as the value lives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kube::{Client, Config};
use serde::Deserialize;

use crate::informer::LONG;
use crate::named;
use crate::proxy::Proxy;

/// What `start.sh` prints.
#[derive(Debug, Deserialize)]
struct Addresses {
    url: String,
    token: String,
    ca: PathBuf,
    etcd: String,
}

/// Both servers. They stop with this value, or with the process, however it ends.
#[derive(Debug)]
pub(crate) struct Server {
    script: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    addresses: Addresses,
}

impl Server {
    /// With these flags of kube-apiserver; none where there is nothing to start.
    pub(crate) fn start(flags: &[&str]) -> Option<Server> {
        let binaries = named("DELTA_FIFO_APISERVER", ".ci/apiserver")?;
        let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apiserver/start.sh");
        let mut command = Command::new("bash");
        command.arg(kit).arg(binaries).args(flags);
        let mut script =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash is installed");
        let commands = script.stdin.take();
        let mut answers = BufReader::new(script.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("the script prints text");
        let addresses = serde_json::from_str(&line).expect("the servers have started");
        Some(Server { script, commands, answers, addresses })
    }

    /// Kills the API server and starts it again: same address, same data, an empty cache.
    pub(crate) fn restart(&mut self) {
        let commands = self.commands.as_mut().expect("it runs");
        commands.write_all(b"restart\n").expect("it listens");
        let mut line = String::new();
        tokio::task::block_in_place(|| self.answers.read_line(&mut line)).expect("it answers");
        assert_eq!(line, "restarted\n", "it has come back");
    }

    /// Nobody may watch from before this version any longer, nor go on with a list from before it, if the API server has no cache.
    pub(crate) fn compact(&self, version: u64) {
        let answer = tokio::task::block_in_place(|| {
            self.ask_etcd("/v3/kv/compaction", &format!(r#"{{"revision":"{version}","physical":true}}"#))
        });
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn ask_etcd(&self, path: &str, body: &str) -> String {
        let host = self.addresses.etcd.strip_prefix("http://").expect("etcd's address");
        let mut connection = TcpStream::connect(host).expect("etcd listens");
        write!(
            connection,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .expect("etcd reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("etcd answers in text");
        answer
    }

    /// A client that goes straight to the server.
    pub(crate) fn client(&self) -> Client {
        let mut config = self.config(&self.addresses.url);
        // Whoever watches nothing is answered soon.
        config.read_timeout = Some(LONG);
        Client::try_from(config).expect("the certificate is there")
    }

    /// A client whose connections can be cut, and the one who cuts them.
    pub(crate) async fn client_through_proxy(&self) -> (Client, Proxy) {
        let proxy = Proxy::start(self.addresses.url.strip_prefix("https://").expect("the address")).await;
        let config = self.config(&format!("https://{}", proxy.address()));
        (Client::try_from(config).expect("the certificate is there"), proxy)
    }

    fn config(&self, url: &str) -> Config {
        let mut config = Config::new(url.parse().expect("it is an address"));
        config.root_cert_file = Some(self.addresses.ca.clone());
        config.auth_info.token = Some(self.addresses.token.clone().into());
        config
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.script.wait();
    }
}
