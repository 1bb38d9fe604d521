// Dark or light, and the colours for what is drawn on a canvas: the same tokens as the style
// sheet's, read from it once per change.

export type Theme = 'system' | 'dark' | 'light'

const listeners = new Set<() => void>()
let theme: Theme = 'system'
let cached: Palette | null = null

export interface Palette {
  background: string; raised: string; line: string; faint: string; muted: string; text: string
  accent: string; fail: string; note: string; good: string
  /** Eight, safe for colour-blind eyes; the same workload has the same place everywhere. */
  work: string[]
}

/** The colours of the moment. */
export function palette(): Palette {
  if (cached) return cached
  const s = getComputedStyle(document.documentElement)
  const v = (name: string) => s.getPropertyValue('--' + name).trim()
  cached = {
    background: v('bg'), raised: v('raised'), line: v('line'), faint: v('faint'), muted: v('muted'), text: v('text'),
    accent: v('accent'), fail: v('fail'), note: v('note'), good: v('good'),
    work: Array.from({ length: 8 }, (_, i) => v('w' + i)),
  }
  return cached
}

/** The colour of the i-th workload of a run; the ninth has the first's again. */
export const workColor = (i: number) => palette().work[((i % 8) + 8) % 8] as string

/** A colour of the palette with an opacity, for canvases. */
export function alpha(color: string, a: number): string {
  const m = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color)
  if (!m) return color
  return `rgba(${parseInt(m[1] as string, 16)},${parseInt(m[2] as string, 16)},${parseInt(m[3] as string, 16)},${a})`
}

export const currentTheme = (): Theme => theme

export function setTheme(to: Theme, keep = true) {
  theme = to
  if (to === 'system') document.documentElement.removeAttribute('data-theme')
  else document.documentElement.setAttribute('data-theme', to)
  if (keep) try { localStorage.setItem('plimsoll.theme', to) } catch { /* not kept, then */ }
  changed()
}

export function firstTheme(): Theme {
  try {
    const kept = localStorage.getItem('plimsoll.theme')
    if (kept === 'dark' || kept === 'light') return kept
  } catch { /* the system's, then */ }
  return 'system'
}

export type Density = 'usual' | 'compact'

/** How closely things are set: compact shows more of them on a screen. */
export function setDensity(to: Density, keep = true) {
  if (to === 'usual') document.documentElement.removeAttribute('data-density')
  else document.documentElement.setAttribute('data-density', to)
  if (keep) try { localStorage.setItem('plimsoll.density', to) } catch { /* not kept, then */ }
  changed()
}

export const currentDensity = (): Density => (document.documentElement.getAttribute('data-density') === 'compact' ? 'compact' : 'usual')

export function firstDensity(): Density {
  try {
    if (localStorage.getItem('plimsoll.density') === 'compact') return 'compact'
  } catch { /* the usual one, then */ }
  return 'usual'
}

function changed() {
  cached = null
  for (const f of listeners) f()
}

/** Calls f after every change of colours, until the returned function is called. */
export function onTheme(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

/** What upright A4 and Letter have room for between the usual margins, in CSS pixels. */
const upright = 680

/**
 * Calls f whenever what is drawn has to be laid out anew because of the printer, which waits for
 * no frame. At first, before the printer has made its pages, with the most that may be wide:
 * what is wider would make the pages so, and be cut off. Then, and when all is on the screen
 * again, with Infinity: now it can be measured.
 */
export function onPaper(f: (most: number) => void): () => void {
  const before = () => f(upright)
  const after = () => f(Infinity)
  addEventListener('beforeprint', before)
  addEventListener('afterprint', after)
  const made = onTheme(() => { if (matchMedia('print').matches) f(Infinity) })
  return () => {
    removeEventListener('beforeprint', before)
    removeEventListener('afterprint', after)
    made()
  }
}

/** Follows the system and the printer. Call once. */
export function followSystem() {
  for (const q of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)', 'print']) matchMedia(q).addEventListener('change', changed)
}
