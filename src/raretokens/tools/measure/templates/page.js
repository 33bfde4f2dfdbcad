// Without these scripts everything can still be read.
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = name => document.getElementById(name);
document.documentElement.classList.add("js");
