import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { onTheme } from '../../theme'

/** A ref for an element, and the width of that in CSS pixels: 0 before the first time, and anew when it changes. */
export function useWidth(): [(el: HTMLElement | null) => void, number] {
  const [width, set] = useState(0)
  const seen = useRef<ResizeObserver | null>(null)
  const ref = useCallback((el: HTMLElement | null) => {
    seen.current?.disconnect()
    seen.current = null
    if (el === null) return
    set(el.clientWidth)
    seen.current = new ResizeObserver(() => set(el.clientWidth))
    seen.current.observe(el)
  }, [])
  return [ref, width]
}

/** A number that changes with the colours, for what is drawn on a canvas. */
export function useColours(): number {
  const [n, set] = useState(0)
  useEffect(() => onTheme(() => set(v => v + 1)), [])
  return n
}

/** A value that follows another once that has rested for ms. */
export function useRested<T>(value: T, ms: number): T {
  const [rested, set] = useState(value)
  useEffect(() => {
    const id = setTimeout(() => set(value), ms)
    return () => clearTimeout(id)
  }, [value, ms])
  return rested
}
