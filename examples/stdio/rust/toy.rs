//! A toy engine: that of ../c/toy.c, with a store of prefixes beside it. Yours comes in the place of this file.
use std::collections::BTreeMap;

use crate::cachegen;

pub const VOCAB: usize = 16;
pub const CHANNELS: usize = 2;
type Row = [u32; CHANNELS];

/// All that a session's state is; rows hold the bits of f32.
#[derive(Clone, Default)]
pub struct State {
    pub k: Vec<Row>,
    pub v: Vec<Row>,
    pub recurrent: [u32; 4],
    pub logits: Option<[u32; VOCAB]>,
}

/// The bits of a small number that a float holds exactly.
fn as_f32(word: u32) -> u32 {
    ((word >> 16) as f32 / 256.0 - 128.0).to_bits()
}

impl State {
    pub fn position(&self) -> usize {
        self.k.len()
    }
    pub fn forward(&mut self, token: u32) {
        let count = self.k.len() as u32;
        let seen = if count == 0 { 0 } else { self.k[(self.recurrent[0] % count) as usize][0] };
        for (index, word) in self.recurrent.iter_mut().enumerate() {
            *word = word.wrapping_mul(1664525).wrapping_add(seen).wrapping_add(token)
                .wrapping_add(1013904223).wrapping_add(index as u32);
        }
        let folded = self.recurrent;
        self.k.push([as_f32(folded[0] ^ token), as_f32(folded[1])]);
        self.v.push([as_f32(folded[2]), as_f32(folded[3].wrapping_add(token))]);
        self.logits = None;
    }
    /// Logits, after the last token of a call.
    pub fn finish(&mut self) {
        let words = self.recurrent;
        self.logits = Some(std::array::from_fn(|i| (u64::from(words[i % 4]) * (2 * i as u64 + 1) >> 8) as u32));
    }
    pub fn best(&self) -> Result<u32, &'static str> {
        let logits = self.logits.ok_or("state")?;
        Ok((0..VOCAB).max_by_key(|token| (logits[*token], VOCAB - token)).unwrap_or(0) as u32)
    }
    /// Bytes of rows and words: what a restore copies.
    pub fn bytes(&self) -> usize {
        (self.k.len() + self.v.len()) * 4 * CHANNELS + 16
    }
    pub fn flip(&mut self, part: &str, byte: usize, mask: u8) -> Result<(), &'static str> {
        let word = match part {
            "layer0.k" => self.k.as_flattened_mut().get_mut(byte / 4),
            "layer0.v" => self.v.as_flattened_mut().get_mut(byte / 4),
            "layer1.recurrent" => self.recurrent.get_mut(byte / 4),
            _ => None,
        };
        *word.ok_or("missing")? ^= u32::from(mask) << (byte % 4 * 8);
        Ok(())
    }
    /// Rows from an archive, in the place of those that are there; the bytes that were written.
    pub fn import_archive(&mut self, archive: &[u8]) -> Result<usize, &'static str> {
        let page = cachegen::decode(archive, 1, self.position(), CHANNELS)?;
        let rows = self.position() * CHANNELS;
        self.k.as_flattened_mut().copy_from_slice(&page[..rows]);
        self.v.as_flattened_mut().copy_from_slice(&page[rows..]);
        Ok(page.len() * 4)
    }
}

/// Prefixes of prompts under a budget, least recently used first, and the captures of turns that are not over.
pub struct Store {
    held: Vec<(String, State)>,
    budget: usize,
    pub entries: usize,
    pub counts: BTreeMap<&'static str, usize>,
}

/// Captures of a turn.
pub type Captures = BTreeMap<String, State>;

impl Default for Store {
    fn default() -> Store {
        let counts = ["captures", "restores", "hits", "misses", "evictions"].map(|name| (name, 0));
        Store { held: Vec::new(), budget: 1 << 30, entries: 1000, counts: counts.into() }
    }
}

impl Store {
    fn count(&mut self, name: &'static str, more: usize) {
        *self.counts.entry(name).or_default() += more;
    }
    /// A toy's key: two sums over the tokens and the chunk. Use a digest.
    fn key(tokens: &[u32], chunk: usize) -> String {
        let folded = |sum: u64, token: &u32, prime: u64| (sum ^ u64::from(*token)).wrapping_mul(prime);
        let sum = |prime: u64| tokens.iter().fold(chunk as u64, |sum, token| folded(sum, token, prime));
        format!("{:016x}{:016x}", sum(1099511628211), sum(6364136223846793005))
    }
    pub fn bytes(&self) -> usize {
        self.held.iter().map(|(_, state)| state.bytes()).sum()
    }
    /// The deepest prefix of a prompt that is held, the prompt itself left out.
    pub fn deepest(&mut self, prompt: &[u32], ends: &[usize], chunk: usize) -> Option<State> {
        let keys = ends.iter().rev().skip(1).map(|end| Store::key(&prompt[..*end], chunk));
        let Some(at) = keys.into_iter().find_map(|key| self.held.iter().position(|(held, _)| *held == key)) else {
            self.count("misses", 1);
            return None;
        };
        let entry = self.held.remove(at);
        let state = entry.1.clone();
        self.held.push(entry); // most recently used
        self.count("restores", 1);
        self.count("hits", 1);
        Some(state)
    }
    /// Keep a state until its turn is committed, if there is room.
    pub fn capture(&mut self, tokens: &[u32], chunk: usize, state: &State, into: &mut Captures) {
        let key = Store::key(tokens, chunk);
        let fits = self.bytes() + state.bytes() <= self.budget && self.held.len() < self.entries;
        if fits && !self.held.iter().any(|(held, _)| *held == key) {
            into.insert(key, state.clone());
            self.count("captures", 1);
        }
    }
    pub fn publish(&mut self, captures: Captures) {
        self.held.extend(captures);
    }
    pub fn find(&mut self, key: &str) -> Option<&mut State> {
        self.held.iter_mut().find(|(held, _)| held == key).map(|(_, state)| state)
    }
    /// Let so many go; all where the count is below zero.
    pub fn evict(&mut self, count: i64) -> usize {
        let going = if count < 0 { self.held.len() } else { self.held.len().min(count as usize) };
        self.held.drain(..going);
        self.count("evictions", going);
        going
    }
    pub fn release(&mut self, need: usize) -> usize {
        let before = self.bytes();
        while !self.held.is_empty() && before - self.bytes() < need {
            self.evict(1);
        }
        before - self.bytes()
    }
    /// Other limits, where they are given; what is above them goes.
    pub fn limit(&mut self, bytes: Option<i64>, entries: Option<i64>) {
        self.budget = bytes.map_or(self.budget, |bytes| bytes.max(0) as usize);
        self.entries = entries.map_or(self.entries, |entries| entries.max(0) as usize);
        while self.held.len() > self.entries || (self.bytes() > self.budget && !self.held.is_empty()) {
            self.evict(1);
        }
    }
    /// What `store` answers, beside these captures of turns that are not over.
    pub fn told<'a>(&self, captures: impl Iterator<Item = &'a State>) -> String {
        let pending: usize = captures.map(State::bytes).sum();
        let root = "'parent':'','domain':'00','fixed_bytes':16,'children':0,'pending':false";
        let entry = |(key, state): &(String, State)| {
            format!("{{'key':'{key}','boundary':{},'bytes':{},{root}}}", state.position(), state.bytes())
        };
        let entries: Vec<String> = self.held.iter().map(entry).collect();
        let counts: String = self.counts.iter().map(|(name, count)| format!(",'{name}':{count}")).collect();
        format!("'entries':[{}],'counters':{{'stored_bytes':{},'pending_bytes':{pending},'entries':{}{counts}}}",
            entries.join(","), self.bytes(), self.held.len())
    }
}
