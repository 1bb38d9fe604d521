import { render } from 'preact'
import { App } from './app'
import { firstLanguage, setLanguage } from './i18n'
import { listen } from './keys'
import { followLinks } from './route'
import { firstDensity, firstTheme, followSystem, setDensity, setTheme } from './theme'
import './theme/base.css'

setTheme(firstTheme(), false)
setDensity(firstDensity(), false)
setLanguage(firstLanguage(), false)
followSystem()
followLinks()
listen()

const root = document.getElementById('app')
if (root) render(<App />, root)
