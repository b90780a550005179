//! The terminal of the live view: a screen of its own, keys without echo, and what was there before at the end, also
//! after a panic.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::page::{Line, Style};

/// Whether the terminal is the view's now.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The panic hook is set once.
static HOOK: Once = Once::new();

/// The terminal, until it is dropped.
#[derive(Debug)]
pub(super) struct Terminal {
    /// What is on the screen.
    drawn: Vec<Line>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or cannot be set.
    pub(super) fn take() -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        // From here on a failure gives it back.
        let terminal = Self { drawn: Vec::new() };
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(terminal)
    }

    /// Whether a panic gave the terminal back while the view was at work, in whichever thread it was.
    pub(super) fn is_lost(&self) -> bool {
        !TAKEN.load(Ordering::SeqCst)
    }

    /// The width and the height in characters; those of an old terminal where it does not say.
    pub(super) fn size() -> (u16, u16) {
        match size() {
            Ok((width, height)) if width > 0 && height > 0 => (width, height),
            Ok(_) | Err(_) => (80, 24),
        }
    }

    /// The next page is drawn whole.
    pub(super) fn forget(&mut self) {
        self.drawn.clear();
    }

    /// Shows a page; nothing once the terminal was given back.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, lines: Vec<Line>) -> io::Result<()> {
        if lines == self.drawn {
            return Ok(());
        }
        // Held until the page is written, so that a panic elsewhere gives the terminal back before or after it.
        let mut out = io::stdout().lock();
        if self.is_lost() {
            return Ok(());
        }
        queue!(out, BeginSynchronizedUpdate)?;
        for (row, line) in lines.iter().enumerate() {
            if self.drawn.get(row) == Some(line) {
                continue;
            }
            queue!(out, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            put(&mut out, line)?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        if lines.len() < self.drawn.len() || self.drawn.is_empty() {
            let row = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(out, MoveTo(0, row), Clear(ClearType::FromCursorDown))?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        self.drawn = lines;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Writes one line in its style, without an end of line.
///
/// # Errors
/// The output is closed.
pub(super) fn put(out: &mut impl Write, line: &Line) -> io::Result<()> {
    match line.style {
        Style::Plain => {}
        Style::Strong => queue!(out, SetAttribute(Attribute::Bold))?,
        Style::Faint => queue!(out, SetAttribute(Attribute::Dim))?,
        Style::Good => queue!(out, SetForegroundColor(Color::Green))?,
        Style::Bad => queue!(out, SetForegroundColor(Color::Red))?,
        Style::Key => queue!(out, SetForegroundColor(Color::Cyan))?,
    }
    queue!(out, Print(&line.text), ResetColor, SetAttribute(Attribute::Reset))
}

/// Sets the terminal as it was before, once.
fn give_back() {
    // Another thread may be in the middle of a page; this one may be too, and then it has the lock already.
    let mut out = io::stdout().lock();
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // There is no other place for an error of the terminal: each part is tried.
    execute!(out, EnableLineWrap, Show, LeaveAlternateScreen).ok();
    disable_raw_mode().ok();
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IsTerminal, Read};
    use std::process::{Command, Stdio};

    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::tcgetattr;

    use super::*;

    const INNER: &str = "follow::terminal::tests::a_page_a_panic_and_another_page";

    fn page(text: &str) -> Vec<Line> {
        vec![Line { text: text.to_owned(), style: Style::Plain }]
    }

    #[test]
    #[ignore = "it needs a terminal of its own, which the next test gives it"]
    fn a_page_a_panic_and_another_page() {
        if !io::stdout().is_terminal() {
            return;
        }
        let mut terminal = Terminal::take().unwrap();
        terminal.draw(page("first page")).unwrap();
        let ended = std::thread::spawn(|| panic!("a part fails")).join();
        assert!(ended.is_err() && terminal.is_lost());
        terminal.draw(page("second page")).unwrap();
    }

    #[test]
    fn a_panic_in_any_thread_gives_the_terminal_back_and_no_page_follows() {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let terminal = || Stdio::from(slave.try_clone().unwrap());
        let mut inner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", INNER, "--ignored", "--nocapture"])
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn()
            .unwrap();
        let reading = std::thread::spawn(move || {
            let mut written = Vec::new();
            // It ends with an error, once no process has the terminal.
            drop(File::from(master).read_to_end(&mut written));
            String::from_utf8_lossy(&written).into_owned()
        });
        let ended = inner.wait().unwrap();
        let after = tcgetattr(&slave).unwrap();
        drop(slave);
        let written = reading.join().unwrap();
        assert!(ended.success(), "{written}");
        assert_eq!(after, before);
        let place =
            |text: &str| written.find(text).unwrap_or_else(|| panic!("{text:?}: {written:?}"));
        assert!(place("first page") < place("\u{1b}[?1049l"), "{written:?}");
        assert!(place("\u{1b}[?1049l") < place("a part fails"), "{written:?}");
        assert!(place("\u{1b}[?25h") < place("a part fails"), "{written:?}");
        assert!(!written.contains("second page"), "{written:?}");
    }
}
