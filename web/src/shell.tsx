// What both the panel and the offline report have around their content: the switches of colours
// and language, and the list of keys.

import { language, setLanguage, words } from './i18n'
import { bindings } from './keys'
import { currentTheme, setTheme } from './theme'
import { Dialog, Switch } from './ui'

const t = words(
  { theme: 'Colours', system: 'System', dark: 'Dark', light: 'Light', lang: 'Language', keys: 'Keys' },
  { theme: '配色', system: '系统', dark: '深色', light: '浅色', lang: '语言', keys: '快捷键' },
)

/** The switches of colours and language. */
export function Looks() {
  return (
    <>
      <Switch label={t('theme')} value={currentTheme()} options={[['system', t('system')], ['dark', t('dark')], ['light', t('light')]]} onChange={(v) => setTheme(v)} />
      <Switch label={t('lang')} value={language()} options={[['en', 'English'], ['zh', '中文']]} onChange={(v) => setLanguage(v)} />
    </>
  )
}

/** Every key that does something here. */
export function Help({ close }: { close: () => void }) {
  const seen = new Set<string>()
  const list = [...bindings()].reverse().filter((b) => !b.hidden && !seen.has(b.keys) && seen.add(b.keys)).reverse()
  return (
    <Dialog title={t('keys')} onClose={close}>
      <ul class="keys">
        {list.map((b) => <li key={b.keys}><span class="nowrap">{b.keys.split(' ').map((k) => <><kbd>{nice(k)}</kbd>{' '}</>)}</span><span>{b.text()}</span></li>)}
      </ul>
    </Dialog>
  )
}

const nice = (k: string) => k.replace('ArrowLeft', '←').replace('ArrowRight', '→').replace('ArrowUp', '↑').replace('ArrowDown', '↓').replace('shift+', '⇧ ').replace('Escape', 'Esc')
