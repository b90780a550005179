//! The terminal of the live view: a screen of its own, keys without echo, and what was there before at the end, also
//! after a panic.

use std::io::{self, Stdout, Write};
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
    out: Stdout,
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
        let mut terminal = Self { out: io::stdout(), drawn: Vec::new() };
        execute!(terminal.out, EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(terminal)
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

    /// Shows a page.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, lines: Vec<Line>) -> io::Result<()> {
        if lines == self.drawn {
            return Ok(());
        }
        queue!(self.out, BeginSynchronizedUpdate)?;
        for (row, line) in lines.iter().enumerate() {
            if self.drawn.get(row) == Some(line) {
                continue;
            }
            queue!(self.out, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            put(&mut self.out, line)?;
            queue!(self.out, Clear(ClearType::UntilNewLine))?;
        }
        if lines.len() < self.drawn.len() || self.drawn.is_empty() {
            let row = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(self.out, MoveTo(0, row), Clear(ClearType::FromCursorDown))?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.drawn = lines;
        self.out.flush()
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
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // There is no other place for an error of the terminal: each part is tried.
    execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen).ok();
    disable_raw_mode().ok();
}
