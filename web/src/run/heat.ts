// A latency as a heat map: time across, the figure upwards on a log scale, the number of
// requests as depth of colour. Percentiles hide two humps; this does not.

import type { HeatGrid } from '../api'
import { brief, duration } from '../format'
import { alpha, palette } from '../theme'
import { gutter, logMarks, rightPad } from './plot'
import type { Span } from './view'

/** The lowest and highest value that any cell holds, widened to whole bins. */
export function extent(g: HeatGrid): [number, number] | null {
  let lo = Infinity
  let hi = -Infinity
  for (let i = 1; i < g.cells.length; i += 3) {
    const row = g.cells[i] as number
    const a = g.edges_ms[row]
    const b = g.edges_ms[row + 1]
    if (a === undefined || b === undefined) continue
    if (b > hi) hi = b
    if (a > 0 && a < lo) lo = a
    else if (a <= 0 && b / 2 < lo) lo = b / 2
  }
  return hi > 0 && lo < hi ? [lo, hi] : null
}

/** The height of a row of the map. */
const rowPixels = 4

export class Heat {
  readonly #canvas = document.createElement('canvas')
  #image: HTMLCanvasElement | null = null
  #key = ''
  grid: HeatGrid | null = null

  constructor(readonly host: HTMLElement) {
    this.#canvas.className = 'heat'
    host.append(this.#canvas)
  }

  draw(window: Span, width: number, height: number): boolean {
    const g = this.grid
    const range = g && extent(g)
    const px = devicePixelRatio || 1
    const c = this.#canvas
    if (c.width !== Math.round(width * px) || c.height !== Math.round(height * px)) {
      c.width = Math.round(width * px)
      c.height = Math.round(height * px)
      c.style.width = width + 'px'
      c.style.height = height + 'px'
    }
    const ctx = c.getContext('2d')
    if (!ctx) return false
    ctx.clearRect(0, 0, c.width, c.height)
    if (!g || !range) return false
    const p = palette()
    const top = 8 * px
    const bottom = c.height - 7 * px
    const left = gutter * px
    const right = c.width - rightPad * px
    const [lo, hi] = range
    const span = Math.log(hi / lo)
    const y = (v: number) => bottom - (Math.log(Math.max(v, lo) / lo) / span) * (bottom - top)

    const plotHeight = Math.max(1, Math.round(bottom - top))
    const key = `${plotHeight}|${p.accent}|${lo}|${hi}`
    if (!this.#image || this.#key !== key) {
      this.#key = key
      this.#image = paintCells(g, plotHeight, (v) => y(v) - top, p.accent)
    }
    // Labels and lines of the decades first, below the cells.
    ctx.font = `${11 * px}px ${getComputedStyle(document.body).fontFamily}`
    ctx.textAlign = 'right'
    ctx.textBaseline = 'middle'
    for (const v of logMarks(lo, hi, Math.floor(height / 24))) {
      const at = Math.round(y(v)) + 0.5
      ctx.strokeStyle = p.line
      ctx.lineWidth = px
      ctx.beginPath()
      ctx.moveTo(left, at)
      ctx.lineTo(right, at)
      ctx.stroke()
      ctx.fillStyle = p.muted
      ctx.fillText(brief(duration(v)), left - 6 * px, at)
    }
    const scale = (right - left) / (window.to - window.from)
    const x0 = left + (g.from - window.from) * scale
    const x1 = left + (g.from + g.n * g.step_ms - window.from) * scale
    ctx.save()
    ctx.beginPath()
    ctx.rect(left, top, right - left, bottom - top)
    ctx.clip()
    ctx.imageSmoothingEnabled = false
    ctx.drawImage(this.#image, x0, top, x1 - x0, plotHeight)
    ctx.restore()
    return true
  }

  set(g: HeatGrid) {
    this.grid = g
    this.#image = null
  }
  destroy() { this.#canvas.remove() }
}

/**
 * Cells of a map put together into rows of some pixels: bins may be finer than the eye. Gives
 * column, row and count, three by three; a bin is in the row of its middle.
 */
export function gather(g: HeatGrid, size: number, y: (v: number) => number): number[] {
  const sums = new Map<number, number>()
  for (let i = 0; i + 2 < g.cells.length; i += 3) {
    const bin = g.cells[i + 1] as number
    const low = g.edges_ms[bin]
    const high = g.edges_ms[bin + 1]
    if (low === undefined || high === undefined) continue
    const row = Math.max(0, Math.floor(y(low > 0 ? Math.sqrt(low * high) : high / 2) / size))
    const key = row * g.n + (g.cells[i] as number)
    sums.set(key, (sums.get(key) ?? 0) + (g.cells[i + 2] as number))
  }
  return [...sums].flatMap(([key, count]) => [key % g.n, Math.floor(key / g.n), count])
}

function paintCells(g: HeatGrid, height: number, y: (v: number) => number, color: string): HTMLCanvasElement {
  const image = document.createElement('canvas')
  image.width = Math.max(1, g.n)
  image.height = height
  const ctx = image.getContext('2d')
  if (!ctx) return image
  const size = rowPixels * (devicePixelRatio || 1)
  const cells = gather(g, size, y)
  let most = 1
  for (let i = 2; i < cells.length; i += 3) most = Math.max(most, cells[i] as number)
  for (let i = 0; i + 2 < cells.length; i += 3) {
    ctx.fillStyle = alpha(color, 0.15 + 0.85 * Math.sqrt((cells[i + 2] as number) / most))
    ctx.fillRect(cells[i] as number, (cells[i + 1] as number) * size, 1, size)
  }
  return image
}
