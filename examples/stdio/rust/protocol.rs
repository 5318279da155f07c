//! The stdio protocol for drivers in Rust: requests, answers, and the two files of bytes. Copy it as it is.
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;

/// What an operation answers, with ' for the quotes of JSON; or the word of the seam that it refuses with.
pub type Answer = Result<String, &'static str>;

/// One request: a flat JSON line whose texts hold no quotes, so `find` is parser enough; and the files of bytes.
pub struct Request<'a> {
    line: &'a str,
    files: Option<&'a Files>,
}

impl<'a> Request<'a> {
    fn after(&self, name: &str) -> Option<&'a str> {
        let key = format!("\"{name}\":");
        self.line.find(&key).map(|at| &self.line[at + key.len()..])
    }
    pub fn number(&self, name: &str) -> Option<i64> {
        let rest = self.after(name)?;
        rest[..rest.find([',', '}']).unwrap_or(rest.len())].parse().ok()
    }
    /// A number that is none below zero; 0 where it is not given.
    pub fn size(&self, name: &str) -> usize {
        self.size_or(name, 0)
    }
    pub fn size_or(&self, name: &str, otherwise: usize) -> usize {
        self.number(name).map_or(otherwise, |number| number.max(0) as usize)
    }
    pub fn text(&self, name: &str) -> &'a str {
        self.after(name).and_then(|rest| rest.strip_prefix('"')).and_then(|rest| rest.split('"').next()).unwrap_or("")
    }
    pub fn flag(&self, name: &str) -> bool {
        self.after(name).is_some_and(|rest| rest.starts_with("true"))
    }
    /// Whether a key begins so.
    pub fn has(&self, start: &str) -> bool {
        self.line.contains(&format!("\"{start}"))
    }
    /// Whether an option is not known.
    pub fn has_other_option(&self, known: &[&str]) -> bool {
        let mut names = self.line.split("\"option.").skip(1).filter_map(|rest| rest.split('"').next());
        names.any(|name| !known.contains(&name))
    }
    /// The number of a handle, which is like `h1`.
    pub fn handle(&self) -> Result<usize, &'static str> {
        self.text("handle").strip_prefix('h').and_then(|number| number.parse().ok()).ok_or("missing")
    }
    /// Bytes from the start of the one file.
    pub fn take(&self, bytes: usize) -> Result<Vec<u8>, &'static str> {
        self.files.ok_or("state")?.take(bytes)
    }
    /// Write bytes one behind the other, from the start of the other file.
    pub fn put(&self, all: &[&[u8]]) -> Result<(), &'static str> {
        self.files.ok_or("state")?.put(&all.concat())
    }
    /// Bytes, and where they lie: all that `logits` and `export_image` answer.
    pub fn hand_over(&self, data: &[u8]) -> Answer {
        self.put(&[data])?;
        Ok(format!("'at':0,'bytes':{}", data.len()))
    }
    /// The operation that `meanwhile` asks for.
    fn asked(&self) -> Result<&'static str, &'static str> {
        let known = ["snapshot", "restore", "export_image", "import_image", "begin", "extend", "decode", "reset"];
        known.into_iter().find(|op| op.strip_suffix("_image").unwrap_or(op) == self.text("ask")).ok_or("unsupported")
    }
}

/// `meanwhile`: a call of a session goes on, and in the middle of it the session is asked for something else.
#[derive(Default)]
pub struct Middle {
    asked: &'static str, // empty: nothing
    answered: Option<&'static str>, // the word that it was refused with; empty: it was not
    pub busy: bool, // while it is asked, the session refuses with "state"
}

impl Middle {
    pub fn ask(&mut self, request: &Request) -> Result<(), &'static str> {
        *self = Middle { asked: request.asked()?, ..Middle::default() };
        Ok(())
    }
    /// Between two tokens of a call: what to ask for now, once.
    pub fn due(&mut self) -> Option<&'static str> {
        let op = std::mem::take(&mut self.asked);
        self.busy = !op.is_empty();
        Some(op).filter(|op| !op.is_empty())
    }
    pub fn answered(&mut self, answer: Answer) {
        self.answered = Some(answer.err().unwrap_or(""));
        self.busy = false;
    }
    /// What `meanwhile` answers, after the call.
    pub fn told(&mut self, ended: Answer) -> Answer {
        self.asked = "";
        ended?;
        Ok(format!("'code':'{}'", self.answered.ok_or("state")?))
    }
}

/// The files that `hello` names.
struct Files {
    input: File,
    output: File,
}

impl Files {
    fn open(request: &Request) -> Result<Files, &'static str> {
        let input = File::open(request.text("in")).map_err(|_| "missing")?;
        let output = OpenOptions::new().read(true).write(true).open(request.text("out")).map_err(|_| "missing")?;
        Ok(Files { input, output })
    }
    fn put(&self, data: &[u8]) -> Result<(), &'static str> {
        self.output.write_all_at(data, 0).map_err(|_| "transfer")
    }
    fn take(&self, bytes: usize) -> Result<Vec<u8>, &'static str> {
        let mut data = vec![0u8; bytes];
        self.input.read_exact_at(&mut data, 0).map_err(|_| "transfer")?;
        Ok(data)
    }
}

/// Refuse with a word, unless something holds.
pub fn require(held: bool, word: &'static str) -> Result<(), &'static str> {
    held.then_some(()).ok_or(word)
}

/// Words of 32 bits as bytes.
pub fn little(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes as words of 32 bits.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// What `begin`, `extend`, `restore` and imports answer: the prompt is for `start` to `end`, forwarded in chunks.
pub fn begun(start: usize, end: usize, chunk: usize, cached: usize, restored_bytes: usize) -> String {
    format!("'cached':{cached},'restored_bytes':{restored_bytes},'schedule':{:?}", ends(start, end, chunk))
}

/// Where the calls of a prompt end.
pub fn ends(start: usize, end: usize, chunk: usize) -> Vec<usize> {
    let first = (start / chunk + 1) * chunk;
    (first..end).step_by(chunk).chain([end].into_iter().filter(|end| *end > 0)).collect()
}

/// One part in a list: as many elements, or rows of elements.
pub fn part(name: &str, family: &str, layer: i32, kind: &str, shape: &[usize], at: usize, bytes: usize) -> String {
    let stream = if shape.len() > 1 { "rows" } else { "fixed" };
    let what = format!("'name':'{name}','family':'{family}','layer':{layer},'type':'{kind}'");
    format!("{{{what},'shape':{shape:?},'stream':'{stream}','at':{at},'bytes':{bytes}}}")
}

/// Answer requests until `close` or the end of the input.
pub fn serve(mut run: impl FnMut(&str, &Request) -> Answer) -> io::Result<()> {
    let mut files = None;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let named = Request { line: &line, files: None };
        let (id, op) = (named.size("id"), named.text("op"));
        if op == "hello" {
            files = Files::open(&named).ok();
        }
        let request = Request { files: files.as_ref(), ..named };
        let answer = match if files.is_some() { run(op, &request) } else { Err("missing") } {
            Ok(found) => format!("{{'id':{id},'ok':{{{found}}}}}\n"),
            Err(word) => format!("{{'id':{id},'refused':'{word}'}}\n"),
        };
        io::stdout().write_all(answer.replace('\'', "\"").as_bytes())?;
        io::stdout().flush()?;
        if op == "close" {
            break;
        }
    }
    Ok(())
}
