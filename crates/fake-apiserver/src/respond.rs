//! Answers.

use std::io;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use http::{Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};

use crate::ApiServer;
use crate::faults::{Failure, Verb};
use crate::request::{Query, Route};
use crate::store::line;

/// The body of an answer.
pub type Body = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

pub(crate) type Answer = Result<Response<Body>, Failure>;

pub(crate) fn stream(parts: BoxStream<'static, io::Result<Bytes>>) -> Body {
    StreamBody::new(parts.map_ok(Frame::data).boxed())
}

fn response(code: u16, kind: &'static str, body: Body) -> Response<Body> {
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, kind);
    response.body(body).expect("nothing in it is invalid")
}

pub(crate) fn json_stream(parts: BoxStream<'static, io::Result<Bytes>>) -> Response<Body> {
    response(200, "application/json", stream(parts))
}

pub(crate) fn json_bytes(code: u16, body: Bytes) -> Response<Body> {
    response(code, "application/json", stream(stream::iter([Ok(body)]).boxed()))
}

impl Failure {
    pub(crate) fn object(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if let Some(seconds) = self.retry_after {
            status["details"] = json!({ "retryAfterSeconds": seconds });
        }
        status
    }

    pub(crate) fn bytes(&self) -> Bytes {
        serde_json::to_vec(&self.object()).expect("a value is written").into()
    }

    pub(crate) fn with_message(self, message: impl Into<String>) -> Self {
        Failure { message: message.into(), ..self }
    }

    fn response(&self) -> io::Result<Response<Body>> {
        if self.is_broken {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the connection is broken"));
        }
        if self.is_silent {
            return Ok(json_stream(stream::pending().boxed()));
        }
        if self.is_in_stream {
            return Ok(json_bytes(200, line("ERROR", &self.bytes())));
        }
        let mut response = if self.is_plain {
            let text = Bytes::from(self.message.clone().into_bytes());
            response(self.code, "text/plain; charset=utf-8", stream(stream::iter([Ok(text)]).boxed()))
        } else {
            json_bytes(self.code, self.bytes())
        };
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        Ok(response)
    }
}

impl ApiServer {
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> io::Result<Response<Body>>
    where
        B: http_body::Body,
        B::Error: std::fmt::Display,
    {
        let latency = self.state().latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if self.state().is_down {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the server is down"));
        }
        let (parts, body) = request.into_parts();
        let not_found = Failure::status(404, "NotFound");
        let Some(route) = Route::of(parts.uri.path()) else { return not_found.response() };
        let query = Query::of(&parts.uri);
        let verb = match (parts.method.as_str(), route.name.is_empty()) {
            ("GET", true) if query.is_watch => Verb::Watch,
            ("GET", true) if query.token.is_some() => Verb::Page,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("POST", true) => Verb::Create,
            ("PUT", false) => Verb::Update,
            ("PATCH", false) => Verb::Patch,
            ("DELETE", false) => Verb::Delete,
            _ => return Failure::status(405, "MethodNotAllowed").response(),
        };
        let failure = self.state().failure(verb);
        if let Some(failure) = failure {
            return failure.response();
        }
        let answer = match verb {
            Verb::Watch => self.watch(&route, &query),
            Verb::List | Verb::Page => self.list(&route, &query),
            Verb::Get => self.get(&route),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
                let body = body.collect().await.map_err(|error| io::Error::other(error.to_string()))?;
                let is_apply = parts
                    .headers
                    .get(header::CONTENT_TYPE)
                    .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch"));
                self.write(verb, &route, &body.to_bytes(), is_apply)
            }
        };
        answer.or_else(|failure| failure.response())
    }
}
