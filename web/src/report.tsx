// The offline report: the run view for a run that is in the page itself. No server, no
// network; the place stands after the #.

import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { parse } from './api'
import { firstLanguage, language, onLanguage, setLanguage, words } from './i18n'
import { told } from './i18n/told'
import { listen, useKeys } from './keys'
import { type Bundle, BundleSource } from './pages/bundle'
import { followLinks, useHashPaths } from './route'
import { RunView } from './run'
import { Help, Looks } from './shell'
import { firstDensity, firstTheme, followSystem, onTheme, setDensity, setTheme } from './theme'
import { Trouble } from './ui'
import './theme/base.css'

const t = words(
  { help: 'this help', made: 'A report of Plimsoll, complete in this file.', sampled: 'Requests in it: {how}.', empty: 'there is no run in this file' },
  { help: '本帮助', made: 'Plimsoll 报告，全部内容都在此文件中。', sampled: '其中的请求：{how}。', empty: '此文件中没有运行' },
)

async function bundle(): Promise<Bundle> {
  const plain = document.getElementById('data')?.textContent
  if (plain) return parse(plain) as Bundle
  const packed = document.getElementById('data-gz')?.textContent?.trim()
  if (!packed) throw new Error(t('empty'))
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return parse(await new Response(stream).text()) as Bundle
}

function Report({ source }: { source: BundleSource }) {
  const [help, setHelp] = useState(false)
  const [, redraw] = useState(0)
  useEffect(() => {
    const again = () => redraw((n) => n + 1)
    const off = [onLanguage(again), onTheme(again)]
    return () => { for (const f of off) f() }
  }, [])
  useKeys([{ keys: '?', text: () => t('help'), run: () => setHelp((h) => !h) }])
  return (
    <main class="main" key={language()}>
      <RunView source={source} />
      <footer class="report-foot row small muted no-print">
        <span>{t('made')}{source.sampled && ' ' + t('sampled', { how: told(source.sampled) })}</span>
        <Looks />
      </footer>
      {help && <Help close={() => setHelp(false)} />}
    </main>
  )
}

setTheme(firstTheme(), false)
setDensity(firstDensity(), false)
setLanguage(firstLanguage(), false)
useHashPaths()
followSystem()
followLinks()
listen()

const root = document.getElementById('app')
if (root) {
  bundle().then(
    (b) => {
      document.title = `${b.doc.run.name || b.doc.run.id} · Plimsoll`
      render(<Report source={new BundleSource(b)} />, root)
    },
    (err: Error) => render(<Trouble error={err} />, root),
  )
}
