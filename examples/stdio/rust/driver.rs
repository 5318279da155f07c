//! A driver of the stdio protocol in Rust, docs/formats/stdio.md: its operations become calls of an engine, here of a
//! toy with a prefix cache: snapshots at chunk boundaries, published by `commit`. No crates.
//!
//! Put your engine in the place of toy.rs, and its calls into this file; protocol.rs and cachegen.rs stay as they are.
//!
//! rustc --edition 2021 -O -o driver driver.rs
mod cachegen;
mod protocol;
mod toy;

use std::collections::HashMap;

use protocol::{begun, ends, little, part, require, words, Answer, Middle, Request};
use toy::{Captures, State, Store, CHANNELS};

#[derive(Default)]
struct Session {
    state: State,
    prompt: Vec<u32>,
    start: usize, // the prompt is for the positions from here on
    caching: bool,
    captures: Captures,
    middle: Middle, // what is asked for between two tokens of a call
}

#[derive(Default)]
struct Engine {
    chunk: usize,
    most: usize,
    sessions: HashMap<usize, Session>,
    made: usize,
    handles: Vec<State>,
    store: Store,
}

/// The answer of what has nothing to tell.
fn done(_: ()) -> Answer {
    Ok(String::new())
}

fn flip(state: &mut State, request: &Request) -> Answer {
    state.flip(request.text("part"), request.size("byte"), request.size("mask") as u8).and_then(done)
}

fn hello() -> Answer {
    Ok("'protocol':'statecert-stdio','version':1,'devices':[{'name':'cpu','absent':''}],\
        'capabilities':['parts','logits','boundaries','prefix_cache','snapshot','extend','store','evict','corrupt',\
        'meanwhile','archive'],\
        'archives':[{'codec':'lmcache-cachegen','version':2}]".into())
}

fn parts(request: &Request, state: &State) -> Answer {
    let (rows, recurrent) = (state.position(), little(&state.recurrent));
    let meta = [(rows as u64).to_le_bytes(), u64::from(state.logits.is_some()).to_le_bytes()].concat();
    let (k, v) = (little(state.k.as_flattened()), little(state.v.as_flattened()));
    request.put(&[&meta, &recurrent, &k, &v])?;
    let listed = [
        part("meta", "meta", -1, "u8", &[16], 0, 16),
        part("layer0.k", "kv", 0, "f32", &[rows, CHANNELS], 32, k.len()),
        part("layer0.v", "kv", 0, "f32", &[rows, CHANNELS], 32 + k.len(), v.len()),
        part("layer1.recurrent", "recurrent", 1, "u32", &[4], 16, 16),
    ];
    Ok(format!("'parts':[{}]", listed.join(",")))
}

impl Engine {
    fn run(&mut self, op: &str, request: &Request) -> Answer {
        match op {
            "hello" => hello(),
            "open" => self.open(request),
            "open_session" => self.open_session(request),
            "store" => Ok(self.store.told(self.sessions.values().flat_map(|one| one.captures.values()))),
            "evict" => Ok(format!("'evicted':{}", self.store.evict(request.number("count").unwrap_or(0)))),
            "release" => Ok(format!("'freed':{}", self.store.release(request.size("need")))),
            "set_budget" => done(self.store.limit(request.number("bytes"), request.number("entries"))),
            "corrupt_handle" => flip(self.saved(request)?, request),
            "corrupt_store" => flip(self.store.find(request.text("key")).ok_or("missing")?, request),
            "close" => done(()),
            _ => {
                let number = request.size("session");
                let mut session = self.sessions.remove(&number).ok_or("missing")?;
                let answer = self.in_session(op, request, &mut session);
                if op != "close_session" {
                    self.sessions.insert(number, session);
                }
                answer
            }
        }
    }

    fn in_session(&mut self, op: &str, request: &Request, session: &mut Session) -> Answer {
        match op {
            _ if session.middle.busy => Err("state"),
            "begin" => self.begin(request, session),
            "extend" => self.extend(request, session),
            "prefill" => self.prefill(request, session),
            "decode" => self.decode(request, session),
            "meanwhile" => self.meanwhile(request, session),
            "commit" => done(self.store.publish(std::mem::take(&mut session.captures))),
            "abandon" => done(session.captures.clear()),
            "position" => Ok(format!("'position':{}", session.state.position())),
            "logits" => request.hand_over(&session.state.logits.map_or(Vec::new(), |logits| little(&logits))),
            "parts" => parts(request, &session.state),
            "snapshot" => {
                self.handles.push(session.state.clone());
                Ok(format!("'handle':'h{}'", self.handles.len()))
            }
            "restore" => {
                let state = self.saved(request)?.clone();
                *session = Session { start: state.position(), state, ..Session::default() };
                Ok(self.begun(session, session.start, session.state.bytes()))
            }
            "import_archive" => self.import_archive(request, session),
            "corrupt" => flip(&mut session.state, request),
            "reset" => done(*session = Session::default()),
            "close_session" => done(()),
            _ => Err("unsupported"),
        }
    }

    fn open(&mut self, request: &Request) -> Answer {
        let known = ["device", "preset", "chunk", "max_seq_len", "cache_entries"];
        require(!request.has_other_option(&known), "unsupported")?;
        self.chunk = request.size_or("option.chunk", self.chunk).max(1);
        self.most = request.size_or("option.max_seq_len", self.most).max(1);
        self.store.entries = request.size_or("option.cache_entries", self.store.entries);
        Ok(format!("'engine':'toy_rust','version':'1','model':'toy','observability':'parts','device':{{'type':'cpu'}},\
            'model_digest':'820de734217fe8a425cbf4b1a82ae6e5053faf4af1be74c747e6cbbb0578b0ea',\
            'facts':{{'chunk':{},'max_seq_len':{},'logits_type':'u32'}}", self.chunk, self.most))
    }

    fn open_session(&mut self, request: &Request) -> Answer {
        require(!request.has("option."), "unsupported")?;
        self.made += 1;
        self.sessions.insert(self.made, Session::default());
        Ok(format!("'session':{}", self.made))
    }

    fn begun(&self, session: &Session, cached: usize, bytes: usize) -> String {
        begun(session.start, session.start + session.prompt.len(), self.chunk, cached, bytes)
    }

    fn take_prompt(&self, request: &Request, session: &mut Session, start: usize) -> Result<(), &'static str> {
        require(start + request.size("tokens") <= self.most, "capacity")?;
        session.prompt = words(&request.take(request.size("tokens") * 4)?);
        session.start = start;
        session.captures.clear();
        session.caching = request.flag("cache");
        Ok(())
    }

    fn begin(&mut self, request: &Request, session: &mut Session) -> Answer {
        self.take_prompt(request, session, 0)?;
        let ends = ends(0, session.prompt.len(), self.chunk);
        let found = if session.caching { self.store.deepest(&session.prompt, &ends, self.chunk) } else { None };
        let copied = found.as_ref().map_or(0, State::bytes);
        session.state = found.unwrap_or_default();
        Ok(self.begun(session, session.state.position(), copied))
    }

    fn extend(&mut self, request: &Request, session: &mut Session) -> Answer {
        self.take_prompt(request, session, session.state.position())?;
        Ok(self.begun(session, session.start, 0))
    }

    fn prefill(&mut self, request: &Request, session: &mut Session) -> Answer {
        let (from, upto, end) = (session.state.position(), request.size("upto"), session.start + session.prompt.len());
        require(from >= session.start && upto > from && ends(session.start, end, self.chunk).contains(&upto), "state")?;
        for at in from..upto {
            session.state.forward(session.prompt[at - session.start]);
            self.in_between(request, session);
            if session.caching && (at + 1) % self.chunk == 0 && at + 1 < end {
                self.store.capture(&session.prompt[..=at], self.chunk, &session.state, &mut session.captures);
            }
        }
        if upto == end {
            session.state.finish();
        }
        Ok(format!("'forwarded':{}", upto - from))
    }

    fn decode(&mut self, request: &Request, session: &mut Session) -> Answer {
        require(!request.has("sampler."), "unsupported")?;
        require(session.state.position() + request.size("count") <= self.most, "capacity")?;
        let mut tokens = Vec::new();
        for _ in 0..request.size("count") {
            tokens.push(session.state.best()?);
            session.state.forward(tokens[tokens.len() - 1]);
            self.in_between(request, session);
            session.state.finish();
        }
        Ok(format!("'tokens':{tokens:?}"))
    }

    /// Go on as prefill or decode would, and after the first token ask the session for something else.
    fn meanwhile(&mut self, request: &Request, session: &mut Session) -> Answer {
        session.middle.ask(request)?;
        let call = if request.size("upto") > 0 { Engine::prefill } else { Engine::decode };
        let ended = call(self, request, session);
        session.middle.told(ended)
    }

    /// Between two tokens of a call: ask for what `meanwhile` was told to, once.
    fn in_between(&mut self, request: &Request, session: &mut Session) {
        if let Some(op) = session.middle.due() {
            let answer = self.in_session(op, request, session);
            session.middle.answered(answer);
        }
    }

    fn saved(&mut self, request: &Request) -> Result<&mut State, &'static str> {
        self.handles.get_mut(request.handle()?.wrapping_sub(1)).ok_or("missing")
    }

    fn import_archive(&mut self, request: &Request, session: &mut Session) -> Answer {
        require(request.text("codec") == "lmcache-cachegen" && request.size("version") == 2, "unsupported")?;
        let copied = session.state.import_archive(&request.take(request.size("bytes"))?)?;
        let position = session.state.position();
        Ok(begun(position, position, self.chunk, position, copied))
    }
}

fn main() -> std::io::Result<()> {
    let mut engine = Engine { chunk: 64, most: 4096, ..Engine::default() };
    protocol::serve(|op, request| engine.run(op, request))
}
