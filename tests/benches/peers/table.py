"""The one table: what each engine did, and how Surety stands to it."""

import statistics

COLUMNS = [
    "engine",
    "steps/s",
    "Surety : it",
    "run of 10 alone, p50 / p99 ms",
    "Surety : it",
    "empty run, p50 / p99 ms",
    "Surety : it",
    "CPU ms a step (of that Postgres)",
    "writing commits a step",
    "log bytes a step",
    "foreign cores",
    "disk ms",
]


def table(samples, ours):
    """`samples` of each engine by its name, and which name is ours; engines without one are left
    out."""
    figures = {name: Figures(of) for name, of in samples.items() if of}
    rows = [each.row(figures.get(ours)) for each in figures.values()]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


class Figures:
    """Everything that was measured of one engine; a figure that it has not is left empty."""

    def __init__(self, samples):
        self.samples = samples

    def row(self, ours):
        cpu, store = (self.shown(name, 3) for name in ("cpu_ms_per_step", "store_cpu_ms_per_step"))
        return [
            f"{self.samples[0]['peer']} {self.samples[0]['version']}",
            self.spread("steps_per_second"),
            self.ratio(ours, "steps_per_second"),
            self.pair("p50_ms", "p99_ms"),
            self.ratio(ours, "p50_ms"),
            self.pair("empty_p50_ms", "empty_p99_ms"),
            self.ratio(ours, "empty_p50_ms"),
            f"{cpu} ({store})",
            self.shown("writing_commits_per_step", 3),
            self.shown("log_bytes_per_step", 0),
            self.shown("foreign_cores", 2),
            self.shown("disk_ms", 2),
        ]

    def all(self, name):
        return [sample[name] for sample in self.samples if sample.get(name) is not None]

    def median(self, name):
        values = self.all(name)
        return statistics.median(values) if values else None

    def shown(self, name, digits):
        value = self.median(name)
        return "" if value is None else f"{value:,.{digits}f}"

    def spread(self, name):
        values = self.all(name)
        if len(values) < 2:
            return self.shown(name, 0)
        return f"{self.shown(name, 0)} ({min(values):,.0f}..{max(values):,.0f})"

    def pair(self, low, high):
        return f"{self.shown(low, 1)} / {self.shown(high, 1)}"

    def ratio(self, ours, name):
        if ours is None or ours is self or not (ours.median(name) and self.median(name)):
            return ""
        ratio = ours.median(name) / self.median(name)
        return f"x{ratio:.0f}" if ratio >= 10 else f"x{ratio:.2g}"
