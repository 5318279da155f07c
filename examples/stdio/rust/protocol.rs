//! The stdio protocol for drivers in Rust: requests, answers, and the two files of bytes. Copy it as it is.
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;

/// What an operation answers, with ' for the quotes of JSON; or the word of the seam that it refuses with.
pub type Answer = Result<String, &'static str>;

/// One request: a flat JSON line whose texts hold no quotes, so `find` is parser enough.
pub struct Request<'a>(&'a str);

impl<'a> Request<'a> {
    fn after(&self, name: &str) -> Option<&'a str> {
        let key = format!("\"{name}\":");
        self.0.find(&key).map(|at| &self.0[at + key.len()..])
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
        self.0.contains(&format!("\"{start}"))
    }
    /// Whether an option is not known.
    pub fn has_other_option(&self, known: &[&str]) -> bool {
        self.0.split("\"option.").skip(1).filter_map(|rest| rest.split('"').next()).any(|name| !known.contains(&name))
    }
    /// The operation that `meanwhile` asks for.
    pub fn asked(&self) -> Result<&'static str, &'static str> {
        let known = ["snapshot", "restore", "export_image", "import_image", "begin", "extend", "decode", "reset"];
        known.into_iter().find(|op| op.strip_suffix("_image").unwrap_or(op) == self.text("ask")).ok_or("unsupported")
    }
}

/// The files that `hello` names.
pub struct Files {
    input: File,
    output: File,
}

impl Files {
    pub fn open(request: &Request) -> Result<Files, &'static str> {
        let input = File::open(request.text("in")).map_err(|_| "missing")?;
        let output = OpenOptions::new().read(true).write(true).open(request.text("out")).map_err(|_| "missing")?;
        Ok(Files { input, output })
    }
    /// Write bytes one behind the other, from the start.
    pub fn put(&self, all: &[&[u8]]) -> Result<(), &'static str> {
        self.output.write_all_at(&all.concat(), 0).map_err(|_| "transfer")
    }
    pub fn take(&self, bytes: usize) -> Result<Vec<u8>, &'static str> {
        let mut data = vec![0u8; bytes];
        self.input.read_exact_at(&mut data, 0).map_err(|_| "transfer")?;
        Ok(data)
    }
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
    for line in io::stdin().lock().lines() {
        let line = line?;
        let request = Request(&line);
        let (id, op) = (request.size("id"), request.text("op"));
        let answer = match run(op, &request) {
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
