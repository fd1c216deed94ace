// The style of the page at /: light and dark, for wide and narrow screens. Every state is also
// written in words.
#pragma once

#include <string_view>

namespace gpusnoop::status {

inline constexpr std::string_view style =
    R"(:root{color-scheme:light dark;--bg:#fbfbfa;--fg:#1f2328;
--dim:#57606a;--line:#d4d8dc;--head:#f0f1f2;--link:#0b57d0;--ok:#116329;--bad:#a40e26;--note:#7a4b00}
@media(prefers-color-scheme:dark){:root{--bg:#15181b;--fg:#e6e8ea;--dim:#a3acb5;--line:#363d44;
--head:#1f2429;--link:#8ab4f8;--ok:#6fcf85;--bad:#ff8a80;--note:#f0b95c}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:86rem;padding:1rem;color:var(--fg);
background:var(--bg)}
h1{font-size:1.5rem;margin:.2rem 0 0}h2{font-size:1.15rem;margin:2rem 0 .4rem}
p{margin:.3rem 0}a{color:var(--link)}
.dim,small{color:var(--dim)}small{font-size:13px}
nav ul,.notes{list-style:none;margin:.8rem 0;padding:0}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem}
nav a{display:inline-block;padding:.25rem 0}
.notes li{border-left:4px solid;padding:.3rem .8rem;margin:.4rem 0;background:var(--head);
overflow-wrap:anywhere}
.notes .ok{border-color:var(--ok)}.notes .bad{border-color:var(--bad)}.notes .note{border-color:var(--note)}
b.ok{color:var(--ok)}b.bad{color:var(--bad)}b.note{color:var(--note)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.8rem 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.4rem .7rem;border-bottom:1px solid var(--line);
unicode-bidi:isolate}
thead th{background:var(--head);font-weight:600;white-space:nowrap}
tbody th{font-weight:600}tbody tr:last-child>*{border-bottom:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
code,.code{font-family:ui-monospace,monospace;font-size:13px;font-weight:400;overflow-wrap:anywhere}
.fit,td code{display:inline-block;width:max-content;max-width:28rem;overflow-wrap:anywhere}
summary{cursor:pointer}ol{margin:.2rem 0;padding-left:1.6rem}
time,.keep{white-space:nowrap}
@media(max-width:40rem){body{padding:.6rem;font-size:14px}th,td{padding:.35rem .5rem}
dl{grid-template-columns:1fr}dt{margin-top:.3rem}.fit,td code{max-width:13rem}})";

}  // namespace gpusnoop::status
