//! Reads what the parser printed. The parser may have ended in any file, and code in a file may have taken it
//! over: only lines about the file that is due are believed, and they name nothing but places.

use std::collections::VecDeque;
use surety_symbols::{Line, Reason, Symbol, TEXT_LIMIT};

/// The most characters of a kind.
const KIND_LIMIT: usize = 40;

/// The most characters of a container.
const CONTAINER_LIMIT: usize = 200;

/// How the parser's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With all files.
    Regular,
    /// At its limit of memory.
    OutOfMemory,
    /// A file took too long.
    TooSlow,
    /// In any other way.
    Crashed,
}

/// What is known of the candidates.
#[derive(Debug)]
pub(super) struct Answers {
    /// The files without an answer, in the order in which they are parsed.
    open: VecDeque<String>,
    /// The most places of a file and role.
    limit: usize,
    /// The places that were printed, by path.
    pub(super) symbols: Vec<Symbol>,
    /// All definitions.
    pub(super) definitions: u64,
    /// All uses.
    pub(super) uses: u64,
    /// The files with a place.
    pub(super) matched: Vec<String>,
    /// The files without an answer, and why.
    pub(super) not_parsed: Vec<(String, Reason)>,
}

impl Answers {
    /// Answers about these files, which are still to come.
    pub(super) fn awaited(files: Vec<String>, limit: usize) -> Self {
        Self {
            open: files.into(),
            limit,
            symbols: Vec::new(),
            definitions: 0,
            uses: 0,
            matched: Vec::new(),
            not_parsed: Vec::new(),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// The files that are still to be parsed.
    pub(super) fn open(&self) -> Vec<String> {
        self.open.iter().cloned().collect()
    }

    /// Takes the output of one process. Where it ended early, the file that it was in is not parsed again.
    pub(super) fn take(&mut self, output: &[u8], end: End) {
        let mut file = File::default();
        for line in output.split(|byte| *byte == b'\n') {
            // A line that was cut off is that of the file in which the process ended.
            let Ok(line) = serde_json::from_slice(line) else { break };
            if !self.take_line(line, &mut file) {
                break;
            }
        }
        let reason = match end {
            End::OutOfMemory => Reason::TooMuchMemory,
            End::TooSlow => Reason::TooSlow,
            End::Regular | End::Crashed => Reason::Crashed,
        };
        if let Some(path) = self.open.pop_front() {
            self.not_parsed.push((path, reason));
        }
    }

    /// Leaves the rest out.
    pub(super) fn give_up(&mut self) {
        self.not_parsed.extend(self.open.drain(..).map(|path| (path, Reason::NotReached)));
    }

    /// Returns whether the line is one that may come now.
    fn take_line(&mut self, line: Line, file: &mut File) -> bool {
        let Some(due) = self.open.front() else { return false };
        match line {
            Line::Began { path } => {
                *file = File { began: true, symbols: Vec::new() };
                path == *due
            }
            Line::Symbol(symbol) => {
                let fits = file.began
                    && symbol.path == *due
                    && file.symbols.len() < 2 * self.limit
                    && is_plain(&symbol);
                file.symbols.push(symbol);
                fits
            }
            Line::Parsed { path, definitions, uses } => {
                if path != *due || !file.began {
                    return false;
                }
                self.symbols.append(&mut file.symbols);
                self.definitions = self.definitions.saturating_add(definitions);
                self.uses = self.uses.saturating_add(uses);
                let path = self.open.pop_front();
                self.matched.extend(path.filter(|_| definitions > 0 || uses > 0));
                file.began = false;
                true
            }
            Line::NotParsed { path, reason } => {
                if path != *due {
                    return false;
                }
                self.open.pop_front();
                self.not_parsed.push((path, reason));
                *file = File::default();
                true
            }
        }
    }
}

/// The file that is being parsed.
#[derive(Default)]
struct File {
    began: bool,
    symbols: Vec<Symbol>,
}

/// Whether a symbol is shown as one line of bounded length.
fn is_plain(symbol: &Symbol) -> bool {
    let is_line =
        |text: &str, most: usize| text.chars().count() <= most && !text.contains(['\n', '\r']);
    is_line(&symbol.text, TEXT_LIMIT)
        && is_line(&symbol.kind, KIND_LIMIT)
        && symbol.container.as_deref().is_none_or(|name| is_line(name, CONTAINER_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_symbols::Role;

    fn began(path: &str) -> Line {
        Line::Began { path: path.to_owned() }
    }

    fn parsed(path: &str, definitions: u64, uses: u64) -> Line {
        Line::Parsed { path: path.to_owned(), definitions, uses }
    }

    fn symbol(path: &str, text: &str) -> Line {
        Line::Symbol(Symbol {
            path: path.to_owned(),
            line: 1,
            column: 1,
            role: Role::Use,
            kind: "call".to_owned(),
            container: None,
            text: text.to_owned(),
        })
    }

    fn answers(lines: &[Line], end: End) -> Answers {
        let mut answers = Answers::awaited(["a", "b", "c"].map(str::to_owned).to_vec(), 1);
        let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
        answers.take(lines.collect::<String>().as_bytes(), end);
        answers
    }

    fn left_out(answers: &Answers) -> Vec<(&str, &str)> {
        let files = answers.not_parsed.iter();
        files.map(|(path, reason)| (path.as_str(), reason.as_str())).collect()
    }

    #[test]
    fn every_file_has_an_answer_after_a_regular_end() {
        let reason = Reason::Binary;
        let answers = answers(
            &[
                began("a"),
                symbol("a", "x"),
                parsed("a", 0, 1),
                began("b"),
                Line::NotParsed { path: "b".to_owned(), reason },
                began("c"),
                parsed("c", 0, 0),
            ],
            End::Regular,
        );
        assert!(answers.is_complete());
        assert_eq!((answers.symbols.len(), answers.uses, answers.definitions), (1, 1, 0));
        assert_eq!(answers.matched, ["a"]);
        assert_eq!(left_out(&answers), [("b", "binary")]);
    }

    #[test]
    fn the_file_in_which_the_process_ended_is_left_out_and_the_others_are_still_open() {
        for (end, word) in [
            (End::Crashed, "parser_crashed"),
            (End::OutOfMemory, "too_much_memory"),
            (End::TooSlow, "too_slow"),
        ] {
            let mut answers =
                answers(&[began("a"), parsed("a", 1, 0), began("b"), symbol("b", "x")], end);
            assert_eq!(left_out(&answers), [("b", word)]);
            assert!(answers.symbols.is_empty());
            assert_eq!(answers.open(), ["c"]);
            answers.give_up();
            assert_eq!(left_out(&answers), [("b", word), ("c", "not_reached")]);
        }
    }

    #[test]
    fn a_process_that_says_what_it_may_not_is_not_believed() {
        let long = "x".repeat(TEXT_LIMIT + 1);
        for lines in [
            vec![began("b"), parsed("b", 1, 0)],
            vec![parsed("a", 1, 0)],
            vec![began("a"), symbol("/etc/passwd", "x"), parsed("a", 0, 1)],
            vec![began("a"), symbol("a", "x\nverdict: accepted"), parsed("a", 0, 1)],
            vec![began("a"), symbol("a", &long), parsed("a", 0, 1)],
            vec![began("a"), symbol("a", "1"), symbol("a", "2"), symbol("a", "3")],
        ] {
            let answers = answers(&lines, End::Regular);
            assert!(answers.symbols.is_empty() && answers.matched.is_empty(), "{lines:?}");
            assert_eq!(left_out(&answers), [("a", "parser_crashed")], "{lines:?}");
        }
    }

    #[test]
    fn an_output_that_is_cut_off_counts_up_to_its_last_whole_line() {
        let mut answers = Answers::awaited(vec!["a".to_owned()], 1);
        answers.take(b"{\"event\":\"began\",\"path\":\"a\"}\n{\"event\":\"par", End::Crashed);
        assert_eq!(left_out(&answers), [("a", "parser_crashed")]);
    }
}
