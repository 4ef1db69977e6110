import { html, render } from './lib.js';
import { App } from './app.js';
import './theme.js';

render(html`<${App} />`, document.getElementById('app'));
