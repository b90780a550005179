//! Splits a line for a shell into the commands that it may start. It reads more than
//! [`programs`](crate::domain::command::programs) does, because it only asks what may be started.

/// The longest text that is read, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Words after which another command begins, and words that begin one.
const KEYWORDS: &[&str] = &["!", "{", "(", "do", "elif", "else", "if", "then", "until", "while"];
/// Commands before `&&` that decide whether the next one runs.
const GUARDS: &[&str] = &["[", "[[", "command", "test", "type", "which"];
/// Words that end commands together, and behind which the output of all of them may be sent elsewhere.
const ENDS: &[&str] = &["}", "done", "esac", "fi"];

/// One command of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its words, without assignments, keywords and redirections.
    pub words: Vec<String>,
    /// Its assignments, and the files of its redirections.
    pub others: Vec<String>,
    /// The file that it reads as its input.
    pub input: Option<String>,
    /// Whether it may be left out while the line succeeds.
    pub conditional: bool,
    /// Whether the line goes on beside it.
    pub background: bool,
    /// Whether its output goes to a file or to another program.
    pub output_elsewhere: bool,
    /// The subshells that ended since the command before it, and those that began since then.
    pub subshells: Subshells,
}

/// Subshells between two commands, the ended ones first. What a command does to its shell, such as `cd`, ends with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subshells {
    /// How many ended.
    pub ended: usize,
    /// How many began.
    pub began: usize,
}

/// The commands of a line, in order. A text that is too long has none.
pub fn segments(line: &str) -> Vec<Segment> {
    if line.len() > MAX_BYTES {
        return Vec::new();
    }
    let mut reader = Reader::new(line);
    reader.read();
    reader.segments
}

struct Reader<'l> {
    rest: std::iter::Peekable<std::str::Chars<'l>>,
    segments: Vec<Segment>,
    segment: Segment,
    /// The word that is being read; none between words.
    word: Option<String>,
    /// The sign before the next word, where that is the file of a redirection.
    redirected: Option<char>,
    /// How many `if`, `while` and `case` are open.
    blocks: usize,
    /// Whether the next command runs only by the result of another one.
    next_conditional: bool,
    /// The subshells since the last command.
    subshells: Subshells,
    /// The open brackets: the command with which each began, and whether the line takes what is written in it.
    brackets: Vec<(usize, bool)>,
    /// The first command of the brackets that ended last, until another command begins.
    closed: Option<usize>,
    /// Whether an open backquote takes what is written.
    in_backquotes: bool,
    /// Whether the shell itself sends its output elsewhere.
    shell_elsewhere: bool,
}

impl<'l> Reader<'l> {
    fn new(line: &'l str) -> Self {
        Self {
            rest: line.chars().peekable(),
            segments: Vec::new(),
            segment: Segment::default(),
            word: None,
            redirected: None,
            blocks: 0,
            next_conditional: false,
            subshells: Subshells::default(),
            brackets: Vec::new(),
            closed: None,
            in_backquotes: false,
            shell_elsewhere: false,
        }
    }

    fn read(&mut self) {
        while let Some(letter) = self.rest.next() {
            match letter {
                '\'' => self.quoted('\''),
                '"' => self.quoted('"'),
                '\\' => match self.rest.next() {
                    None | Some('\n') => {}
                    Some(next) => self.push(next),
                },
                ' ' | '\t' | '\r' => self.end_word(),
                '#' if self.word.is_none() => {
                    while self.rest.next_if(|letter| *letter != '\n').is_some() {}
                }
                '(' => {
                    let takes = self.word.as_ref().is_some_and(|word| word.ends_with('$'));
                    self.end_segment(false);
                    self.brackets.push((self.segments.len(), takes));
                    self.subshells.began += 1;
                }
                ')' => {
                    self.end_segment(false);
                    self.closed = self.brackets.pop().map(|(began, _)| began);
                    match &mut self.subshells {
                        // One without a command.
                        Subshells { began, .. } if *began > 0 => *began -= 1,
                        Subshells { ended, .. } => *ended += 1,
                    }
                }
                '\n' | ';' => self.end_segment(false),
                '`' => {
                    self.end_segment(false);
                    self.in_backquotes = !self.in_backquotes;
                }
                '&' => self.ampersand(),
                '|' if self.rest.next_if_eq(&'|').is_some() => self.end_segment(true),
                '|' => {
                    self.end_word();
                    self.sends_elsewhere();
                    let input = written_out(&self.segment.words);
                    self.end_segment(false);
                    self.segment.input = input;
                }
                '<' | '>' => self.redirection(letter),
                letter => self.push(letter),
            }
        }
        self.end_segment(false);
    }

    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn quoted(&mut self, mark: char) {
        self.word.get_or_insert_default();
        while let Some(letter) = self.rest.next() {
            match letter {
                _ if letter == mark => return,
                '\\' if mark == '"' => {
                    if let Some(next) = self.rest.next() {
                        self.push(next);
                    }
                }
                '$' if mark == '"' && self.rest.peek() == Some(&'(') => {
                    self.push(letter);
                    self.substitution(')');
                }
                '`' if mark == '"' => self.substitution('`'),
                letter => self.push(letter),
            }
        }
    }

    /// Reads commands in double quotes, whose output the line takes. They stay a part of the word as well.
    fn substitution(&mut self, end: char) {
        let (mut inner, mut depth, mut quote) = (String::new(), 0_usize, None);
        if end == ')' {
            self.rest.next();
            self.push('(');
        } else {
            self.push(end);
        }
        while let Some(letter) = self.rest.next() {
            self.push(letter);
            match (quote, letter) {
                (None, letter) if letter == end && depth == 0 => break,
                (None, '(') => depth += 1,
                (None, ')') => depth = depth.saturating_sub(1),
                (None, '\'' | '"') if end == ')' => quote = Some(letter),
                (Some(open), letter) if letter == open => quote = None,
                (_, _) => {}
            }
            inner.push(letter);
            if letter == '\\'
                && quote != Some('\'')
                && let Some(next) = self.rest.next()
            {
                self.push(next);
                // A backquote needs one in front of a quote, which the commands do not have.
                if end == '`' && next == '"' {
                    inner.pop();
                }
                inner.push(next);
            }
        }
        // `$((1 + 2))` is arithmetic.
        if inner.starts_with('(') {
            return;
        }
        let mut found = segments(&inner);
        let is_conditional = self.blocks > 0 || self.next_conditional;
        for segment in &mut found {
            segment.output_elsewhere = true;
            segment.conditional |= is_conditional;
        }
        if let Some(first) = found.first_mut() {
            let before = std::mem::take(&mut self.subshells);
            first.subshells.ended += before.ended;
            first.subshells.began += before.began + 1;
            self.subshells.ended += 1;
        }
        self.segments.extend(found);
    }

    fn ampersand(&mut self) {
        if self.rest.next_if_eq(&'&').is_some() {
            self.end_word();
            let first = self.segment.words.first().map_or("", String::as_str);
            let guarded = GUARDS.contains(&first);
            self.end_segment(guarded);
        } else if self.rest.peek() == Some(&'>') {
            self.end_word();
        } else {
            (self.segment.conditional, self.segment.background) = (true, true);
            self.end_segment(false);
        }
    }

    /// Drops `2>&1` and the like, and notes a redirection of the output.
    fn redirection(&mut self, sign: char) {
        let descriptor = self.word.take_if(|word| word.chars().all(|c| c.is_ascii_digit()));
        self.end_word();
        let mut signs = 1;
        while self.rest.next_if(|next| matches!(next, '<' | '>' | '|')).is_some() {
            signs += 1;
        }
        if self.rest.next_if_eq(&'&').is_some() {
            while self.rest.next_if(|next| next.is_ascii_digit() || *next == '-').is_some() {}
            return;
        }
        if sign == '>' && descriptor.as_deref() != Some("0") {
            self.sends_elsewhere();
        }
        // Behind more than one sign stands no file that is read.
        self.redirected = Some(if signs > 1 { '>' } else { sign });
    }

    /// Notes that the output goes elsewhere: that of this command, or of the commands that ended with it.
    fn sends_elsewhere(&mut self) {
        self.segment.output_elsewhere = true;
        let from = match self.segment.words.first() {
            Some(word) if ENDS.contains(&word.as_str()) => Some(0),
            Some(_) => None,
            None => self.closed,
        };
        let ended = from.and_then(|from| self.segments.get_mut(from..)).unwrap_or_default();
        ended.iter_mut().for_each(|segment| segment.output_elsewhere = true);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if let Some(sign) = self.redirected.take() {
            if sign == '<' {
                self.segment.input = Some(word.clone());
            }
            return self.segment.others.push(word);
        }
        if !self.segment.words.is_empty() {
            return self.segment.words.push(word);
        }
        match word.as_str() {
            "if" | "while" | "until" | "case" | "for" => self.blocks += 1,
            "fi" | "done" | "esac" => self.blocks = self.blocks.saturating_sub(1),
            _ => {}
        }
        if KEYWORDS.contains(&word.as_str()) {
            return;
        }
        if is_assignment(&word) {
            return self.segment.others.push(word);
        }
        self.segment.words.push(word);
    }

    fn end_segment(&mut self, guards_next: bool) {
        self.end_word();
        self.redirected = None;
        let mut segment = std::mem::take(&mut self.segment);
        segment.conditional |= self.blocks > 0 || self.next_conditional;
        self.next_conditional = guards_next;
        if !segment.words.is_empty() {
            let is_taken = self.in_backquotes || self.brackets.iter().any(|(_, takes)| *takes);
            segment.output_elsewhere |= is_taken || self.shell_elsewhere;
            // `exec > log` is about all that follows.
            self.shell_elsewhere |= segment.words == ["exec"] && segment.output_elsewhere;
            self.closed = None;
            segment.subshells = std::mem::take(&mut self.subshells);
            self.segments.push(segment);
        }
    }
}

/// The file that a command writes out as it is: what a pipe leads from it reads that file.
fn written_out(words: &[String]) -> Option<String> {
    match words {
        [program, path] if program == "cat" && !path.starts_with('-') => Some(path.clone()),
        _ => None,
    }
}

/// Whether a shell reads the word as `NAME=value`.
pub fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
