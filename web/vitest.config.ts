import { defineConfig } from 'vitest/config'

// Pure logic only; what is on screen is looked at in a real browser.
export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  // The limits are for what hangs: this machine may be busy with other work.
  test: { testTimeout: 300_000, hookTimeout: 300_000, include: ['src/**/*.test.ts', 'test/**/*.test.ts'], environment: 'node', pool: 'threads', maxWorkers: 1 },
})
