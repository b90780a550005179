//! Turns a day's meetings into the blocks of time that are taken.

/// A stretch of the day in minutes since midnight: it starts at `start` and is over at `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub start: u32,
    pub end: u32,
}

/// Merges meetings into as few blocks as say the same. A meeting that starts the minute another
/// ends leaves no gap, so the two are one block.
pub fn busy(meetings: &[Block]) -> Vec<Block> {
    let mut sorted = meetings.to_vec();
    sorted.sort_by_key(|meeting| meeting.start);
    let mut blocks: Vec<Block> = Vec::new();
    for meeting in sorted {
        match blocks.last_mut() {
            Some(last) if meeting.start < last.end => last.end = last.end.max(meeting.end),
            _ => blocks.push(meeting),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u32, end: u32) -> Block {
        Block { start, end }
    }

    #[test]
    fn overlapping_meetings_are_one_block() {
        assert_eq!(busy(&[block(540, 600), block(570, 660)]), [block(540, 660)]);
    }

    #[test]
    fn meetings_back_to_back_are_one_block() {
        assert_eq!(busy(&[block(540, 600), block(600, 660)]), [block(540, 660)]);
    }

    #[test]
    fn a_gap_between_meetings_stays_free() {
        let day = [block(540, 600), block(630, 660)];
        assert_eq!(busy(&day), day);
    }

    #[test]
    fn a_short_meeting_inside_a_long_one_changes_nothing() {
        assert_eq!(busy(&[block(540, 720), block(570, 600)]), [block(540, 720)]);
    }
}
