/** Calls a function for SIGTERM and SIGINT, also a second time. Answers what ends that. */
export function stopOnSignals(stop: (signal: string) => void): () => void {
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, stop);
  return () => {
    for (const signal of signals) process.off(signal, stop);
  };
}
