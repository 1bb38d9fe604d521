import { readFileSync } from 'node:fs'
import { defineConfig } from 'vite'

// What the licences of its parts ask for goes with the page, which has no other file.
const licenses = readFileSync(new URL('public/licenses.txt', import.meta.url), 'utf8')

// The offline report: one script without imports and one style sheet, with fixed names, for a single HTML file.
export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  publicDir: false,
  // The one file imports nothing while it runs, so where it lies does not matter.
  define: { 'import.meta.resolve': 'undefined', 'import.meta.url': '""' },
  build: {
    outDir: '../internal/assets/files/dist',
    emptyOutDir: false,
    target: 'es2022',
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    rollupOptions: {
      input: 'src/report.tsx',
      output: {
        format: 'iife',
        postBanner: `/*!\n${licenses}*/`,
        codeSplitting: false,
        entryFileNames: 'report.js',
        assetFileNames: 'report[extname]',
      },
    },
  },
})
