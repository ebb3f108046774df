/** Questions of one conversation, one after the other. What is put off stays open, at the card of its call. */

/** @import { DeskQuestion } from "../../values.js" */
/** @import { Word } from "./question.js" */

import { dismiss, say } from "../../toast.js";
import { t } from "../../words.js";
import { ask } from "./question.js";

/**
 * @param {(question: DeskQuestion, word: Word) => Promise<void>} decide
 * @param {(question: DeskQuestion) => void} [putOff] Told of a question that was closed without a word.
 */
export function asker(decide, putOff) {
  /** @type {DeskQuestion[]} */
  let questions = [];
  /** @type {{ question: DeskQuestion, dialog: { close: () => void } } | null} */
  let shown = null;
  /** Put off, or answered here. @type {Set<string>} */
  const aside = new Set();
  let ended = false;

  /** @param {DeskQuestion} question */
  function show(question) {
    const close = () => {
      if (!aside.has(question.request) && questions.includes(question)) putOff?.(question);
      aside.add(question.request);
      shown = null;
      next();
    };
    /** @param {Word} word */
    const give = async (word) => {
      aside.add(question.request);
      await decide(question, word).catch((error) => {
        aside.delete(question.request);
        throw error;
      });
      if (shown?.question === question) shown.dialog.close();
    };
    dismiss(question.request);
    shown = { question, dialog: ask(question, questions.length - 1, give, close) };
  }
  function next() {
    const waits = questions.find((one) => !aside.has(one.request));
    if (waits && !shown && !ended) show(waits);
  }

  return {
    /** @param {DeskQuestion[]} now */
    set(now) {
      questions = now;
      const open = shown;
      if (open && !now.some((one) => one.request === open.question.request)) {
        if (!aside.has(open.question.request)) say(t("chat.ask.elsewhere"));
        open.dialog.close();
      }
      next();
    },
    /** Look at this one again. @param {string} callId */
    open(callId) {
      const wanted = questions.find((one) => one.call_id === callId) ?? questions[0];
      if (wanted && !shown) show(wanted);
    },
    close() {
      ended = true;
      shown?.dialog.close();
    },
  };
}
