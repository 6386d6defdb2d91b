/* Surfaces and text are Airflow's own; what stands behind each comma is for a version that names them otherwise. */
export const CSS = `
.ep { --ep-fg: var(--chakra-colors-fg, #1f2328); --ep-dim: var(--chakra-colors-fg-muted, #59636e);
  --ep-bg: var(--chakra-colors-bg, #ffffff); --ep-alt: var(--chakra-colors-bg-subtle, #f6f8fa);
  --ep-line: var(--chakra-colors-border-emphasized, #d1d9e0); --ep-due: #b6c0cc;
  --ep-commit: #2a8149; --ep-commit-fg: #ffffff; --ep-revised: #175a36; --ep-revised-fg: #ffffff; --ep-open: #f2b53a;
  --ep-open-fg: #3b2a00; --ep-stripe: #dc9a17; --ep-precommit: #2f6bcb; --ep-precommit-fg: #ffffff;
  --ep-aborted: #c0332a; --ep-aborted-fg: #ffffff; --ep-missing: #8a5200; --ep-focus: #0969da; --ep-restated: #6639ba;
  color: var(--ep-fg); background: var(--ep-bg); font-size: 14px; line-height: 1.4; padding: 16px 20px; height: 100%;
  display: flex; flex-direction: column; gap: 14px; box-sizing: border-box; overflow: auto; }
.dark .ep { color-scheme: dark; --ep-fg: var(--chakra-colors-fg, #e6edf3); --ep-dim: var(--chakra-colors-fg-muted, #9da7b3);
  --ep-bg: var(--chakra-colors-bg, #0d1117); --ep-alt: var(--chakra-colors-bg-muted, #161b22);
  --ep-line: var(--chakra-colors-border-emphasized, #30363d); --ep-due: #55617a;
  --ep-commit: #2ea35a; --ep-commit-fg: #04140a; --ep-revised: #8be3a9; --ep-revised-fg: #04140a; --ep-open: #e3a72f;
  --ep-open-fg: #1f1600; --ep-stripe: #bd861b; --ep-precommit: #6ea8fe; --ep-precommit-fg: #04122b;
  --ep-aborted: #ff7b72; --ep-aborted-fg: #2b0500; --ep-missing: #f0b955; --ep-focus: #58a6ff; --ep-restated: #c297ff; }
.ep h1 { font-size: 20px; font-weight: 600; margin: 0; }
.ep h2 { font-size: 16px; font-weight: 600; margin: 0; }
.ep p { margin: 4px 0 0; overflow-wrap: anywhere; }
.ep-top { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 4px 16px; }
.ep-bar { display: flex; flex-wrap: wrap; gap: 12px; align-items: end; }
.ep-bar label { display: flex; flex-direction: column; font-size: 12px; color: var(--ep-dim); gap: 2px; }
.ep-bar label.ep-check { flex-direction: row; align-items: center; gap: 6px; padding-bottom: 6px; }
.ep-bar input:not([type=checkbox]), .ep-bar select, .ep-button { color: var(--ep-fg); background: var(--ep-bg);
  border: 1px solid var(--ep-line); border-radius: 6px; padding: 4px 8px; font-size: 14px; height: 32px; }
.ep-button { cursor: pointer; white-space: nowrap; flex: none; }
.ep-head { color: var(--ep-dim); font-size: 12px; font-variant-numeric: tabular-nums; }
.ep-bar :is(input, select):focus-visible, .ep-button:focus-visible, .ep a:focus-visible, .ep-scroll:focus-visible {
  outline: 2px solid var(--ep-focus); outline-offset: 1px; }
.ep-bar select { max-width: 260px; }
.ep-legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12px; color: var(--ep-dim); }
.ep-legend span { display: inline-flex; align-items: center; gap: 6px; }
.ep-swatch { position: relative; width: 16px; height: 16px; border-radius: 3px; display: inline-flex; align-items: center;
  justify-content: center; font-size: 10px; font-weight: 600; box-sizing: border-box; }
.ep-beside { display: flex; gap: 14px; align-items: flex-start; flex: 1 1 0; min-height: 320px; }
.ep-beside.ep-away { height: 0; min-height: 0; flex: none; overflow: hidden; }
.ep-scroll { overflow: auto; border: 1px solid var(--ep-line); border-radius: 6px; flex: 1 1 0; min-width: 0; max-height: 100%; }
.ep-away .ep-scroll { border: none; }
.ep-rows { position: relative; }
.ep-row { display: flex; position: absolute; left: 0; box-sizing: border-box; border-top: 1px solid var(--ep-line); }
.ep-name { position: sticky; left: 0; z-index: 2; background: var(--ep-bg); width: 230px; flex: none; padding: 5px 10px; overflow: hidden;
  border-right: 1px solid var(--ep-line); box-sizing: border-box; }
.ep-name :is(b, small) { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ep-name b { font-weight: 600; line-height: 20px; }
.ep-name small { color: var(--ep-dim); font-size: 11px; line-height: 16px; }
.ep-track { position: relative; flex: none; }
.ep-axis { position: sticky; top: 0; z-index: 3; border-top: none; height: 28px; background: var(--ep-alt); }
.ep-axis .ep-name { background: var(--ep-alt); font-size: 12px; color: var(--ep-dim); }
.ep-tick { position: absolute; top: 0; bottom: 0; border-left: 1px solid var(--ep-line); padding: 4px 0 0 4px; font-size: 11px;
  color: var(--ep-dim); white-space: nowrap; pointer-events: none; }
.ep-cell { position: absolute; top: 10px; height: 32px; border-radius: 3px; border: none; padding: 0; cursor: pointer; overflow: hidden;
  font-size: 11px; font-weight: 600; box-sizing: border-box; display: flex; align-items: center; justify-content: center;
  white-space: nowrap; scroll-margin: 40px 8px 40px 240px; }
.ep-cell:hover, .ep-cell:focus-visible, .ep-cell[aria-pressed=true] { outline: 2px solid var(--ep-focus); outline-offset: 1px; z-index: 1; }
.ep-commit { background: var(--ep-commit); color: var(--ep-commit-fg); }
.ep-revised { background: var(--ep-revised); color: var(--ep-revised-fg); }
.ep-open { background: var(--ep-open); color: var(--ep-open-fg); }
.ep-precommit { background: var(--ep-precommit); color: var(--ep-precommit-fg); }
.ep-silent { color: var(--ep-open-fg); border: 2px solid var(--ep-aborted);
  background: repeating-linear-gradient(45deg, var(--ep-stripe) 0 5px, var(--ep-open) 5px 10px); }
.ep-aborted { background: var(--ep-aborted); color: var(--ep-aborted-fg); }
.ep-skipped { background: var(--ep-bg); color: var(--ep-commit); border: 2px dashed var(--ep-commit); }
.ep-check-failed { background: var(--ep-bg); color: var(--ep-aborted); border: 2px solid var(--ep-aborted); }
.ep-due { background: transparent; color: var(--ep-dim); border: 1px dashed var(--ep-dim); font-weight: 400; }
.ep-expired { background: var(--ep-bg); color: var(--ep-dim); border: 2px solid var(--ep-dim); border-left: 6px solid var(--ep-commit); }
.ep-swatch.ep-expired { border-width: 1px 1px 1px 4px; }
.ep-missing { background: var(--ep-bg); color: var(--ep-missing); border: 2px dotted var(--ep-missing); }
.ep-hidden { background: var(--ep-alt); color: var(--ep-dim); border: 1px solid var(--ep-line); font-weight: 400; }
.ep-thin:is(.ep-due, .ep-hidden) { border: none; background: var(--ep-due); top: 22px; height: 8px; }
.ep-thin:is(.ep-skipped, .ep-check-failed) { border-width: 1px; border-style: solid; }
.ep-thin.ep-expired { border: none; background: linear-gradient(var(--ep-commit) 25%, var(--ep-due) 25%); }
.ep-thin.ep-silent { border: none; background: linear-gradient(var(--ep-aborted) 50%, var(--ep-open) 50%); }
.ep-thin.ep-missing { border: none; background: repeating-linear-gradient(var(--ep-missing) 0 4px, transparent 4px 7px); }
.ep-none { position: sticky; left: 240px; display: inline-block; padding: 16px 10px; font-size: 12px; color: var(--ep-dim); }
.ep-over { box-shadow: inset 0 6px 0 var(--ep-commit); }
.ep-mark { position: absolute; top: 0; bottom: 0; width: 0; border-left: 2px solid var(--ep-focus); pointer-events: none; }
.ep-note { border: 1px solid var(--ep-line); border-radius: 6px; padding: 12px; background: var(--ep-alt); }
.ep-beside .ep-detail { flex: 0 0 clamp(380px, 38%, 620px); max-height: 100%; overflow: auto; box-sizing: border-box; }
@media (max-width: 1100px) { .ep-beside { flex-direction: column; flex: none; } .ep-scroll { flex: none; width: 100%; max-height: 60vh; }
  .ep-beside .ep-detail { flex: none; width: 100%; max-height: none; } }
.ep-error { border-color: var(--ep-aborted); }
.ep-detail dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 8px 0; }
.ep-detail dt { color: var(--ep-dim); } .ep-detail dd { margin: 0; overflow-wrap: anywhere; }
.ep-log { overflow-x: auto; }
.ep-wide table { min-width: 680px; }
.ep-detail table { border-collapse: collapse; width: 100%; font-size: 12px; font-variant-numeric: tabular-nums; }
.ep-detail th, .ep-detail td { text-align: left; padding: 3px 12px 3px 0; border-top: 1px solid var(--ep-line); vertical-align: top; }
.ep-detail th { color: var(--ep-dim); font-weight: 500; }
.ep-detail a { color: var(--ep-focus); text-decoration: underline; }
.ep h3 { font-size: 13px; font-weight: 600; margin: 12px 0 4px; }
.ep-detail ul, .ep-plan ul { margin: 0; padding-left: 18px; list-style: disc; } .ep-plan { display: flex; flex-direction: column; gap: 8px; } .ep-detail li { overflow-wrap: anywhere; }
.ep-detail pre { margin: 6px 0 0; font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; }
.ep-detail tbody th { color: var(--ep-fg); font-weight: 600; }
.ep-detail .ep-leases { list-style: none; padding: 0; } .ep-leases li { display: flex; gap: 10px; justify-content: space-between; align-items: center; padding: 4px 0; }
.ep-leases small { display: block; color: var(--ep-dim); font-size: 12px; }
.ep-detail .ep-acts { margin: 8px 0; } .ep-plan { max-height: 40vh; overflow: auto; }
.ep-dialog label.ep-check { flex-direction: row; align-items: center; gap: 6px; }
.ep-title { display: flex; justify-content: space-between; align-items: center; gap: 12px; }
.ep-tabs { display: flex; gap: 4px; border-bottom: 1px solid var(--ep-line); }
.ep-tabs a { padding: 6px 12px; color: var(--ep-dim); text-decoration: none; border-bottom: 2px solid transparent; margin-bottom: -1px; }
.ep-tabs a:hover { color: var(--ep-fg); }
.ep-tabs a[aria-current] { color: var(--ep-fg); border-bottom-color: var(--ep-focus); font-weight: 600; }
.ep a.ep-restated { position: absolute; top: 46px; height: 17px; box-sizing: border-box; border-top: 3px solid var(--ep-restated); overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; font-size: 11px; line-height: 14px; color: var(--ep-restated); text-decoration: none; padding: 0 3px; }
.ep a.ep-restated:hover { text-decoration: underline; }
.ep-table { overflow-x: auto; border: 1px solid var(--ep-line); border-radius: 6px; flex: none; }
.ep-table table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
.ep-table th, .ep-table td { text-align: left; padding: 7px 12px; border-top: 1px solid var(--ep-line); vertical-align: top; overflow-wrap: anywhere; }
.ep-table thead th { color: var(--ep-dim); font-weight: 500; font-size: 12px; background: var(--ep-alt); border-top: none; white-space: nowrap; }
.ep-table tbody th { font-weight: 600; min-width: 120px; }
.ep-table .ep-number { text-align: right; white-space: nowrap; }
.ep-table td.ep-once { white-space: nowrap; }
.ep-narrow { width: fit-content; max-width: 100%; }
.ep-narrow table { width: auto; }
.ep-table td small { display: block; color: var(--ep-dim); font-size: 12px; }
.ep-view a { color: var(--ep-focus); text-decoration: underline; }
.ep-view { display: flex; flex-direction: column; gap: 14px; flex: none; }
.ep-view section { display: flex; flex-direction: column; gap: 8px; }
.ep-view dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 0; }
.ep-view dt { color: var(--ep-dim); } .ep-view dd { margin: 0; overflow-wrap: anywhere; }
.ep-view code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12px; overflow-wrap: anywhere; }
.ep-view dd code { display: block; }
.ep-badge { display: inline-block; border-radius: 10px; padding: 1px 9px; font-size: 12px; font-weight: 600; border: 1px solid transparent; white-space: nowrap; }
.ep-badge-open, .ep-badge-computing { background: var(--ep-open); color: var(--ep-open-fg); }
.ep-badge-published, .ep-badge-staged { background: var(--ep-commit); color: var(--ep-commit-fg); }
.ep-badge-expired, .ep-badge-outdated { background: var(--ep-bg); color: var(--ep-aborted); border-color: var(--ep-aborted); }
.ep-badge-abandoned, .ep-badge-taken-back, .ep-badge-waiting { background: var(--ep-bg); color: var(--ep-dim); border-color: var(--ep-dim); }
.ep-bars { display: flex; height: 6px; width: 140px; border-radius: 3px; overflow: hidden; background: var(--ep-line); margin-top: 5px; }
.ep-bars i { background: var(--ep-commit); }
.ep-acts { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
.ep-button:disabled { cursor: not-allowed; color: var(--ep-dim); background: var(--ep-alt); border-style: dashed; }
.ep-button.ep-primary:not(:disabled) { background: var(--ep-precommit); color: var(--ep-precommit-fg); border-color: var(--ep-precommit); font-weight: 600; }
.ep-button.ep-danger:not(:disabled) { color: var(--ep-aborted); border-color: var(--ep-aborted); }
.ep-button.ep-primary.ep-danger:not(:disabled) { background: var(--ep-aborted); color: var(--ep-aborted-fg); }
.ep-hint { color: var(--ep-dim); font-size: 12px; margin: 0; }
.ep-dialog { color: var(--ep-fg); background: var(--ep-bg); border: 1px solid var(--ep-line); border-radius: 8px; padding: 20px; width: min(560px, 90vw);
  margin: auto; box-shadow: 0 8px 30px rgb(0 0 0 / 35%); }
.ep-dialog::backdrop { background: rgb(0 0 0 / 45%); }
.ep-dialog form { display: flex; flex-direction: column; gap: 12px; }
.ep-dialog label { display: flex; flex-direction: column; gap: 4px; font-size: 12px; color: var(--ep-dim); }
.ep-dialog textarea { font: inherit; font-size: 14px; color: var(--ep-fg); background: var(--ep-bg); border: 1px solid var(--ep-line); border-radius: 6px;
  padding: 6px 8px; min-height: 64px; resize: vertical; }
.ep-dialog .ep-acts { justify-content: flex-end; }
.ep-dialog :is(textarea, .ep-button):focus-visible, .ep-table:focus-visible { outline: 2px solid var(--ep-focus); outline-offset: 1px; }
.ep-graph { overflow: auto; border: 1px solid var(--ep-line); border-radius: 6px; background: var(--ep-bg); max-height: 70vh; }
.ep-graph svg { display: block; margin: 0 auto; font-size: 13px; }
.ep-node rect { fill: var(--ep-bg); stroke: var(--ep-line); stroke-width: 1.5; } .ep-is-job rect { fill: var(--ep-alt); stroke: var(--ep-dim); }
.ep-is-table rect { stroke: var(--ep-commit); } .ep-is-source rect { stroke: var(--ep-precommit); stroke-dasharray: 2 2; }
.ep-node text { fill: var(--ep-fg); text-anchor: middle; font-weight: 600; } .ep-node text.ep-about { fill: var(--ep-dim); font-size: 11px; font-weight: 400; }
.ep-ended { opacity: .75; } .ep-ended rect { stroke-dasharray: 6 4; }
.ep-view .ep-graph a { text-decoration: none; }
.ep-graph a:hover rect, .ep-graph a:focus-visible rect { stroke: var(--ep-focus); stroke-width: 3; } .ep-graph a:focus-visible { outline: none; }
.ep-graph:focus-visible { outline: 2px solid var(--ep-focus); outline-offset: 1px; }
.ep-arrow { fill: none; stroke: var(--ep-dim); stroke-width: 1.3; } .ep-past { stroke-dasharray: 5 4; } .ep-tip { fill: var(--ep-dim); }
.ep-plot { margin: 8px 0 0; } .ep-plot svg { width: 100%; max-width: 620px; display: block; }
.ep-rule { stroke: var(--ep-line); stroke-width: 1; } .ep-line { fill: none; stroke: var(--ep-precommit); stroke-width: 1.5; }
.ep-point { fill: var(--ep-precommit); } .ep-label { fill: var(--ep-dim); font-size: 11px; }
.ep-done { border-color: var(--ep-commit); }
`;
