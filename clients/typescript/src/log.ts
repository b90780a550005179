/** Takes what the package reports; `console` is one. */
export interface Log {
  info(message: string): void;
  warn(message: string): void;
}

/** Shows warnings only. */
export const WARNINGS: Log = {
  info: () => undefined,
  warn: (message) => {
    console.warn(message);
  },
};
