// Shows the times of a page, which the server writes in UTC, in the time zone of the browser.
"use strict";

import {keep, kept} from "./kept.js";

const UTC = "UTC";
const NAME = "times";
// What a time of the server shows: the date, the seconds and the zone, or less.
const SHAPE = /^(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?( .+)?$/;
// Each names the zones of its region: CET is GMT+1 elsewhere.
const REGIONS = ["en-US", "en-GB", "en-AU", "en-IN"];

const namers = REGIONS.map(region => new Intl.DateTimeFormat(region, {timeZoneName: "short"}));
const button = document.getElementById("zone");
let chosen = kept(NAME);

export const inUtc = () => chosen === UTC;

// The short name of the browser's zone, which depends on the time of year.
function ownZone(at) {
  const names = namers.map(namer => namer.formatToParts(at).find(
    part => part.type === "timeZoneName").value);
  return (names.find(name => !/^GMT[+-]/.test(name)) ?? names[0]).replace(/^GMT(?=[+-])/, UTC);
}

const zoneOf = at => inUtc() ? UTC : ownZone(at);

// The date and the time of day, to the second, in the zone that is shown.
export function wall(at) {
  const shift = inUtc() ? 0 : 60000 * at.getTimezoneOffset();
  return new Date(at - shift).toISOString().slice(0, 19).split("T");
}

export function full(at) {
  return [...wall(at), zoneOf(at)].join(" ");
}

function inShape(at, text) {
  const [, year, seconds, zone] = SHAPE.exec(text) ?? [];
  const [date, time] = wall(at);
  return [...(year ? [date] : []), seconds ? time : time.slice(0, 5), ...(zone ? [zoneOf(at)] : [])]
    .join(" ");
}

// Writes only what changes, so that a page is the same after it as before.
export function localise(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    const text = inShape(at, each.textContent);
    if (each.textContent !== text) each.textContent = text;
    if (zoneOf(at) === UTC) each.removeAttribute("title");
    else each.title = [...at.toISOString().slice(0, 19).split("T"), UTC].join(" ");
  }
  for (const each of root.querySelectorAll("[data-zone]")) {
    each.textContent = zoneOf(new Date());
  }
}

// An element for a time of day, given in ISO 8601.
export function clock(iso) {
  const element = document.createElement("time");
  element.dateTime = iso;
  element.textContent = [iso.slice(11, 19), UTC].join(" ");
  const whole = document.createElement("span");
  whole.append(element);
  localise(whole);
  return element;
}

if (ownZone(new Date()) !== UTC) {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(inUtc()));
  button.addEventListener("click", () => {
    chosen = inUtc() ? null : UTC;
    button.setAttribute("aria-pressed", String(inUtc()));
    keep(NAME, chosen);
    localise(document);
    document.dispatchEvent(new Event("zone"));
  });
}
localise(document);
