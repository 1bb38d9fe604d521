// The geometry of the radar of workload shapes. It never draws.

export interface Point { x: number; y: number }

/** Where the share s (0..1) of axis i of n lies, from a centre with radius r: the first axis points up, the rest follow clockwise. */
export function place(i: number, n: number, share: number, cx: number, cy: number, r: number): Point {
  const angle = -Math.PI / 2 + 2 * Math.PI * i / n
  const s = Math.min(Math.max(share, 0), 1) * r
  return { x: round(cx + Math.cos(angle) * s), y: round(cy + Math.sin(angle) * s) }
}

const round = (v: number): number => Math.round(v * 100) / 100

/** An SVG points attribute of a closed outline over the shares; an unknown one counts as 0 and is said beside the picture. */
export function outline(shares: readonly (number | null)[], cx: number, cy: number, r: number): string {
  return shares.map((s, i) => place(i, shares.length, s ?? 0, cx, cy, r)).map(p => `${p.x},${p.y}`).join(' ')
}

/** How the label of axis i is set so that it does not run into the picture. */
export function anchor(i: number, n: number): 'start' | 'middle' | 'end' {
  const x = Math.cos(-Math.PI / 2 + 2 * Math.PI * i / n)
  return x > 0.1 ? 'start' : x < -0.1 ? 'end' : 'middle'
}
