import { defineConfig } from 'vitest/config'

// Pure logic only; what is on screen is looked at in a real browser.
export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  test: { include: ['src/**/*.test.ts', 'test/**/*.test.ts'], environment: 'node', pool: 'threads', maxWorkers: 1 },
})
