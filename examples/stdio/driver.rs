//! A driver of the stdio protocol in Rust, whole and small, without crates: docs/formats/stdio.md.
//!
//! The toy engine is that of driver.c, with a prefix cache beside it: snapshots at chunk boundaries, published by
//! `commit`. Replace `State` by your engine's session; keep the rest. A request is one flat JSON line whose texts hold
//! no quotes, so `find` is parser enough.
//!
//! rustc --edition 2021 -O -o driver driver.rs
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;

const VOCAB: usize = 16;

/// All that a session's state is.
#[derive(Clone, Default)]
struct State {
    rows: Vec<[u32; 2]>,
    recurrent: [u32; 4],
    logits: Option<[u32; VOCAB]>,
}

impl State {
    fn forward(&mut self, token: u32) {
        let count = self.rows.len() as u32;
        let seen = if count == 0 { 0 } else { self.rows[(self.recurrent[0] % count) as usize][0] };
        for (index, word) in self.recurrent.iter_mut().enumerate() {
            *word = word.wrapping_mul(1664525).wrapping_add(seen).wrapping_add(token)
                .wrapping_add(1013904223).wrapping_add(index as u32);
        }
        self.rows.push([self.recurrent[0] ^ token, self.recurrent[1]]);
        self.logits = None;
    }
    fn finish(&mut self) {
        let words = self.recurrent;
        self.logits = Some(std::array::from_fn(|i| (u64::from(words[i % 4]) * (2 * i as u64 + 1) >> 8) as u32));
    }
    fn bytes(&self) -> usize {
        self.rows.len() * 8 + 16
    }
    fn flip(&mut self, part: &str, byte: usize, mask: u8) -> Result<(), &'static str> {
        let word = match part {
            "layer0.k" => self.rows.get_mut(byte / 8).map(|row| &mut row[byte / 4 % 2]),
            "layer1.recurrent" => self.recurrent.get_mut(byte / 4),
            _ => None,
        };
        *word.ok_or("missing")? ^= u32::from(mask) << (byte % 4 * 8);
        Ok(())
    }
}

#[derive(Default)]
struct Session {
    state: State,
    tokens: Vec<u32>,
    start: usize,
    caching: bool,
    busy: bool,                      // a call is in progress
    asked: &'static str,             // what is asked in the middle of it; empty: nothing
    answered: Option<&'static str>,  // the word it was refused with; empty: it was not
    pending: BTreeMap<String, State>,
}

struct Engine {
    input: Option<File>,
    output: Option<File>,
    chunk: usize,
    most: usize,
    entries: usize,
    budget: usize,
    sessions: HashMap<usize, Session>,
    made: usize,
    handles: Vec<State>,
    store: Vec<(String, State)>, // least recently used first
    counts: [(&'static str, usize); 5],
}

/// One request line.
struct Request<'a>(&'a str);

impl<'a> Request<'a> {
    fn after(&self, name: &str) -> Option<&'a str> {
        let key = format!("\"{name}\":");
        self.0.find(&key).map(|at| &self.0[at + key.len()..])
    }
    fn number(&self, name: &str) -> Option<i64> {
        let rest = self.after(name)?;
        rest[..rest.find([',', '}']).unwrap_or(rest.len())].parse().ok()
    }
    fn size(&self, name: &str) -> usize {
        self.number(name).unwrap_or(0).max(0) as usize
    }
    fn text(&self, name: &str) -> &'a str {
        self.after(name).and_then(|rest| rest.strip_prefix('"')).and_then(|rest| rest.split('"').next()).unwrap_or("")
    }
    fn flag(&self, name: &str) -> bool {
        self.after(name).is_some_and(|rest| rest.starts_with("true"))
    }
    /// Names of the options, without what they begin with.
    fn options(&self) -> Vec<&'a str> {
        self.0.split("\"option.").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }
}

type Answer = Result<String, &'static str>;

impl Engine {
    fn put(&self, parts: &[&[u8]]) -> Result<(), &'static str> {
        let all: Vec<u8> = parts.concat();
        self.output.as_ref().ok_or("state")?.write_all_at(&all, 0).map_err(|_| "transfer")
    }
    fn taken(&self, request: &Request) -> Result<Vec<u32>, &'static str> {
        let mut data = vec![0u8; request.size("tokens") * 4];
        self.input.as_ref().ok_or("state")?.read_exact_at(&mut data, 0).map_err(|_| "transfer")?;
        Ok(data.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }
    fn ends(&self, session: &Session) -> Vec<usize> {
        let end = session.start + session.tokens.len();
        let first = (session.start / self.chunk + 1) * self.chunk;
        (first..end).step_by(self.chunk).chain([end].into_iter().filter(|end| *end > 0)).collect()
    }
    fn key(&self, tokens: &[u32]) -> String {
        // a toy's key: two sums over the tokens and the chunk. Use a digest.
        let sum = |prime: u64| tokens.iter().fold(self.chunk as u64, |sum, token| (sum ^ u64::from(*token)).wrapping_mul(prime));
        format!("{:016x}{:016x}", sum(1099511628211), sum(6364136223846793005))
    }
    fn held(&self) -> usize {
        self.store.iter().map(|(_, state)| state.bytes()).sum()
    }
    fn evict(&mut self, count: i64) -> usize {
        let going = if count < 0 { self.store.len() } else { self.store.len().min(count as usize) };
        self.store.drain(..going);
        self.counts[4].1 += going;
        going
    }
    fn begun(&self, session: &Session, cached: usize, bytes: usize) -> String {
        format!("\"cached\":{cached},\"restored_bytes\":{bytes},\"schedule\":{:?}", self.ends(session))
    }

    fn run(&mut self, op: &str, request: &Request) -> Answer {
        match op {
            "hello" => {
                self.input = File::open(request.text("in")).ok();
                self.output = OpenOptions::new().read(true).write(true).open(request.text("out")).ok();
                Ok("\"protocol\":\"statecert-stdio\",\"version\":1,\"capabilities\":[\"parts\",\"logits\",\"boundaries\",\"prefix_cache\",\
                    \"snapshot\",\"extend\",\"store\",\"evict\",\"corrupt\",\"meanwhile\"],\"devices\":[{\"name\":\"cpu\",\"absent\":\"\"}]".into())
            }
            "open" => {
                let known = ["device", "preset", "chunk", "max_seq_len", "cache_entries"];
                if request.options().iter().any(|name| !known.contains(name)) {
                    return Err("unsupported");
                }
                self.chunk = request.number("option.chunk").map_or(64, |chunk| chunk.max(1) as usize);
                self.most = request.number("option.max_seq_len").map_or(4096, |most| most.max(1) as usize);
                self.entries = request.number("option.cache_entries").map_or(1000, |most| most.max(0) as usize);
                Ok(format!("\"engine\":\"toy_rust\",\"version\":\"1\",\"model\":\"toy\",\"model_digest\":\"820de734217fe8a425cbf4b1a82ae6e5053faf4af1be74c747e6cbbb0578b0ea\",\
                    \"observability\":\"parts\",\"facts\":{{\"chunk\":{},\"max_seq_len\":{},\"logits_type\":\"u32\"}},\
                    \"device\":{{\"type\":\"cpu\"}}", self.chunk, self.most))
            }
            "open_session" if !request.options().is_empty() => Err("unsupported"),
            "open_session" => {
                self.made += 1;
                self.sessions.insert(self.made, Session::default());
                Ok(format!("\"session\":{}", self.made))
            }
            "store" => {
                let entries: Vec<String> = self.store.iter().map(|(key, state)| format!(
                    "{{\"key\":\"{key}\",\"parent\":\"\",\"boundary\":{},\"bytes\":{},\"fixed_bytes\":16,\"children\":0,\"pending\":false,\"domain\":\"00\"}}",
                    state.rows.len(), state.bytes())).collect();
                let pending: usize = self.sessions.values().flat_map(|one| one.pending.values()).map(State::bytes).sum();
                let mut counters = format!("\"stored_bytes\":{},\"pending_bytes\":{pending},\"entries\":{}", self.held(), self.store.len());
                for (name, count) in self.counts {
                    let _ = write!(counters, ",\"{name}\":{count}");
                }
                Ok(format!("\"entries\":[{}],\"counters\":{{{counters}}}", entries.join(",")))
            }
            "evict" => Ok(format!("\"evicted\":{}", self.evict(request.number("count").unwrap_or(0)))),
            "release" => {
                let before = self.held();
                while !self.store.is_empty() && before - self.held() < request.size("need") {
                    self.evict(1);
                }
                Ok(format!("\"freed\":{}", before - self.held()))
            }
            "set_budget" => {
                self.budget = request.number("bytes").map_or(self.budget, |bytes| bytes.max(0) as usize);
                self.entries = request.number("entries").map_or(self.entries, |most| most.max(0) as usize);
                while self.store.len() > self.entries || (self.held() > self.budget && !self.store.is_empty()) {
                    self.evict(1);
                }
                Ok(String::new())
            }
            "corrupt_handle" | "corrupt_store" => {
                let found = if op == "corrupt_handle" {
                    let number = request.text("handle").strip_prefix('h').and_then(|number| number.parse::<usize>().ok());
                    number.and_then(|number| self.handles.get_mut(number.wrapping_sub(1)))
                } else {
                    self.store.iter_mut().find(|(key, _)| key == request.text("key")).map(|(_, state)| state)
                };
                found.ok_or("missing")?.flip(request.text("part"), request.size("byte"), request.size("mask") as u8)?;
                Ok(String::new())
            }
            "close" => Ok(String::new()),
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

    /// Between two tokens of a call: ask for what `meanwhile` was told to ask for, once.
    fn in_between(&mut self, request: &Request, session: &mut Session) {
        let op = std::mem::take(&mut session.asked);
        if !op.is_empty() {
            session.busy = true;
            session.answered = Some(self.in_session(op, request, session).err().unwrap_or(""));
            session.busy = false;
        }
    }

    fn in_session(&mut self, op: &str, request: &Request, session: &mut Session) -> Answer {
        if session.busy {
            return Err("state");
        }
        match op {
            "begin" | "extend" => {
                let start = if op == "extend" { session.state.rows.len() } else { 0 };
                let tokens = self.taken(request)?;
                if start + tokens.len() > self.most {
                    return Err("capacity");
                }
                session.pending.clear();
                session.caching = op == "begin" && request.flag("cache");
                (session.start, session.tokens) = (start, tokens);
                if op == "extend" {
                    return Ok(self.begun(session, start, 0));
                }
                session.state = State::default();
                let ends = self.ends(session);
                let keys = ends.iter().rev().skip(1).map(|end| self.key(&session.tokens[..*end]));
                let found = keys.filter(|_| session.caching).find_map(|key| self.store.iter().position(|(held, _)| *held == key));
                let Some(at) = found else {
                    self.counts[3].1 += usize::from(session.caching);
                    return Ok(self.begun(session, 0, 0));
                };
                let entry = self.store.remove(at);
                session.state = entry.1.clone();
                self.store.push(entry); // most recently used
                self.counts[1].1 += 1;
                self.counts[2].1 += 1;
                Ok(self.begun(session, session.state.rows.len(), session.state.bytes()))
            }
            "prefill" => {
                let (from, upto, end) = (session.state.rows.len(), request.size("upto"), session.start + session.tokens.len());
                if upto <= from || from < session.start || !self.ends(session).contains(&upto) {
                    return Err("state");
                }
                for at in from..upto {
                    session.state.forward(session.tokens[at - session.start]);
                    self.in_between(request, session);
                    if session.caching && (at + 1) % self.chunk == 0 && at + 1 < end {
                        let key = self.key(&session.tokens[..=at]);
                        let fits = self.held() + session.state.bytes() <= self.budget && self.store.len() < self.entries;
                        if fits && !self.store.iter().any(|(held, _)| *held == key) {
                            session.pending.insert(key, session.state.clone());
                            self.counts[0].1 += 1;
                        }
                    }
                }
                if upto == end {
                    session.state.finish();
                }
                Ok(format!("\"forwarded\":{}", upto - from))
            }
            "commit" => {
                self.store.extend(std::mem::take(&mut session.pending));
                Ok(String::new())
            }
            "abandon" => {
                session.pending.clear();
                Ok(String::new())
            }
            "decode" => {
                if request.0.contains("\"sampler.") {
                    return Err("unsupported");
                }
                if session.state.rows.len() + request.size("count") > self.most {
                    return Err("capacity");
                }
                let mut tokens = Vec::new();
                for _ in 0..request.size("count") {
                    let logits = session.state.logits.ok_or("state")?;
                    let best = (0..VOCAB).max_by_key(|token| (logits[*token], VOCAB - token)).unwrap_or(0) as u32;
                    session.state.forward(best);
                    self.in_between(request, session);
                    session.state.finish();
                    tokens.push(best);
                }
                Ok(format!("\"tokens\":{tokens:?}"))
            }
            "meanwhile" => {
                // goes on as prefill or decode would, and after the first token asks the session for something else
                let known = ["snapshot", "restore", "export", "import", "begin", "extend", "decode", "reset"];
                session.asked = known.into_iter().find(|ask| *ask == request.text("ask")).ok_or("unsupported")?;
                session.answered = None;
                let call = if request.size("upto") > 0 { "prefill" } else { "decode" };
                let ended = self.in_session(call, request, session);
                session.asked = "";
                ended?;
                Ok(format!("\"code\":\"{}\"", session.answered.ok_or("state")?))
            }
            "position" => Ok(format!("\"position\":{}", session.state.rows.len())),
            "logits" => {
                let data: Vec<u8> = session.state.logits.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
                self.put(&[&data])?;
                Ok(format!("\"at\":0,\"bytes\":{}", data.len()))
            }
            "parts" => {
                let meta = [session.state.rows.len() as u64, u64::from(session.state.logits.is_some())];
                let meta: Vec<u8> = meta.iter().flat_map(|word| word.to_le_bytes()).collect();
                let fixed: Vec<u8> = session.state.recurrent.iter().flat_map(|word| word.to_le_bytes()).collect();
                let rows: Vec<u8> = session.state.rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
                self.put(&[&meta, &fixed, &rows])?;
                let part = |name: &str, family: &str, layer: i32, kind: &str, shape: &str, stream: &str, at: usize, bytes: usize| format!(
                    "{{\"name\":\"{name}\",\"family\":\"{family}\",\"layer\":{layer},\"type\":\"{kind}\",\"shape\":{shape},\"stream\":\"{stream}\",\"at\":{at},\"bytes\":{bytes}}}");
                Ok(format!("\"parts\":[{},{},{}]",
                    part("meta", "meta", -1, "u8", "[16]", "fixed", 0, 16),
                    part("layer0.k", "kv", 0, "u32", &format!("[{},2]", session.state.rows.len()), "rows", 32, rows.len()),
                    part("layer1.recurrent", "recurrent", 1, "u32", "[4]", "fixed", 16, 16)))
            }
            "snapshot" => {
                self.handles.push(session.state.clone());
                Ok(format!("\"handle\":\"h{}\"", self.handles.len()))
            }
            "restore" => {
                let number = request.text("handle").strip_prefix('h').and_then(|number| number.parse::<usize>().ok());
                let saved = number.and_then(|number| self.handles.get(number.wrapping_sub(1))).ok_or("missing")?;
                *session = Session { state: saved.clone(), start: saved.rows.len(), ..Session::default() };
                Ok(self.begun(session, session.start, session.state.bytes()))
            }
            "corrupt" => {
                session.state.flip(request.text("part"), request.size("byte"), request.size("mask") as u8)?;
                Ok(String::new())
            }
            "reset" => {
                *session = Session::default();
                Ok(String::new())
            }
            "close_session" => Ok(String::new()),
            _ => Err("unsupported"),
        }
    }
}

fn main() -> io::Result<()> {
    let counts = ["captures", "restores", "hits", "misses", "evictions"].map(|name| (name, 0));
    let mut engine = Engine {
        input: None, output: None, chunk: 64, most: 4096, entries: 1000, budget: 1 << 30,
        sessions: HashMap::new(), made: 0, handles: Vec::new(), store: Vec::new(), counts,
    };
    for line in io::stdin().lock().lines() {
        let line = line?;
        let request = Request(&line);
        let (id, op) = (request.size("id"), request.text("op"));
        let answer = match engine.run(op, &request) {
            Ok(found) => format!("{{\"id\":{id},\"ok\":{{{found}}}}}\n"),
            Err(word) => format!("{{\"id\":{id},\"refused\":\"{word}\"}}\n"),
        };
        io::stdout().write_all(answer.as_bytes())?;
        io::stdout().flush()?;
        if op == "close" {
            break;
        }
    }
    Ok(())
}
