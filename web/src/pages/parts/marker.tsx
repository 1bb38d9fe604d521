// Eight shapes beside eight colours, so that colour never stands alone.

/** The outlines of the shapes around 0,0 with a half width of 1; the same index is the same shape everywhere. */
const outlines: readonly (readonly (readonly [number, number])[] | 'circle' | 'ring')[] = [
  'circle',
  [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
  [[0, -1.1], [1.05, 0.75], [-1.05, 0.75]],
  [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
  'ring',
  [[0, 1.1], [1.05, -0.75], [-1.05, -0.75]],
  [[-1, -1], [-0.5, -1], [0, -0.5], [0.5, -1], [1, -1], [1, -0.5], [0.5, 0], [1, 0.5], [1, 1], [0.5, 1], [0, 0.5], [-0.5, 1], [-1, 1], [-1, 0.5], [-0.5, 0], [-1, -0.5]],
  [[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]],
]

const outline = (i: number) => outlines[((i % 8) + 8) % 8]!

/** Adds shape i at x, y with half width r to the canvas's path, to be filled. */
function trace(c: CanvasRenderingContext2D, i: number, x: number, y: number, r: number) {
  const o = outline(i)
  if (o === 'circle' || o === 'ring') {
    c.moveTo(x + r, y)
    c.arc(x, y, r, 0, 2 * Math.PI)
    if (o === 'ring') {
      c.moveTo(x + r * 0.5, y)
      // The other way around is a hole.
      c.arc(x, y, r * 0.5, 0, 2 * Math.PI, true)
    }
    return
  }
  o.forEach(([dx, dy], j) => (j === 0 ? c.moveTo(x + dx * r, y + dy * r) : c.lineTo(x + dx * r, y + dy * r)))
  c.closePath()
}

/** Shape i in a colour as a picture of its own, 2 half wide and high, for laying down thousands of times. */
export function stamp(i: number, colour: string, r: number, half: number, ratio: number): HTMLCanvasElement {
  const c = document.createElement('canvas')
  c.width = c.height = Math.round(2 * half * ratio)
  const g = c.getContext('2d')
  if (g === null) return c
  g.scale(ratio, ratio)
  g.fillStyle = colour
  g.beginPath()
  trace(g, i, half, half, r)
  g.fill()
  return c
}

/** Shape i within an SVG, in the colour of the text. */
export function Mark({ i, x, y, r }: { i: number; x: number; y: number; r: number }) {
  const o = outline(i)
  if (o === 'circle') return <circle cx={x} cy={y} r={r} fill="currentColor" />
  if (o === 'ring') return <circle cx={x} cy={y} r={r * 0.75} fill="none" stroke="currentColor" stroke-width={r * 0.5} />
  return <polygon points={o.map(([dx, dy]) => `${x + dx * r},${y + dy * r}`).join(' ')} fill="currentColor" />
}

/** Shape and colour i as a key beside a name; with status set, the colours of the statuses. */
export function Key({ i, colour }: { i: number; colour?: string }) {
  return <svg class={'mk ' + (colour ?? `w${((i % 8) + 8) % 8}`)} width="10" height="10" viewBox="-5 -5 10 10" aria-hidden="true"><Mark i={i} x={0} y={0} r={3.8} /></svg>
}
