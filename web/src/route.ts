// Where the panel is: a path and a query, which hold the whole view, so that a link shows the
// same. With a server these are the address's own; in an offline file they stand after the #.

import { useEffect, useState } from 'preact/hooks'

export interface Place { path: string[]; query: URLSearchParams }

let hash = false
const listeners = new Set<() => void>()

/** Keeps the place after the #, for a file that no server answers for. */
export function useHashPaths() { hash = true }

export function place(): Place {
  const at = hash ? location.hash.slice(1) : location.pathname + location.search
  const cut = at.indexOf('?')
  const path = cut < 0 ? at : at.slice(0, cut)
  return {
    path: path.split('/').filter(Boolean).map((p) => { try { return decodeURIComponent(p) } catch { return p } }),
    query: new URLSearchParams(cut < 0 ? '' : at.slice(cut + 1)),
  }
}

/** Goes to a path of the panel ("/runs/x?sel=1-2"). replace leaves no step in the history. */
export function go(to: string, replace = false) {
  const url = hash ? '#' + to : to
  try {
    history[replace ? 'replaceState' : 'pushState'](null, '', url)
  } catch {
    // Browsers limit how often this may be called; the view is right all the same.
    return
  }
  for (const f of listeners) f()
}

/** Changes parts of the query and leaves the rest; null or '' takes one away. */
export function setQuery(patch: Record<string, string | null>, replace = true) {
  const { path, query } = place()
  for (const [k, v] of Object.entries(patch)) {
    if (v === null || v === '') query.delete(k)
    else query.set(k, v)
  }
  // Commas and tildes part lists and may stand in an address as they are: a link is to be read.
  const s = query.toString().replaceAll('%2C', ',').replaceAll('%7E', '~')
  go('/' + path.map(encodeURIComponent).join('/') + (s ? '?' + s : ''), replace)
}

/** Calls f after every change of place, until the returned function is called. */
export function onPlace(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

/** The place, and a new rendering with every change of it. */
export function usePlace(): Place {
  const [now, set] = useState(place)
  useEffect(() => onPlace(() => set(place())), [])
  return now
}

/** Follows the browser's own steps, and clicks on links within the panel. Call once. */
export function followLinks() {
  addEventListener('popstate', () => { for (const f of listeners) f() })
  if (hash) return
  document.addEventListener('click', (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    const a = (e.target as Element | null)?.closest?.('a')
    const href = a?.getAttribute('href')
    if (!a || !href?.startsWith('/') || href.startsWith('/api/') || a.target || a.hasAttribute('download')) return
    e.preventDefault()
    if (href !== location.pathname + location.search) {
      go(href)
      scrollTo(0, 0)
    }
  })
}
