// The findings of an examination, and their formats.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpusnoop::doctor {

// The worst last.
enum class Verdict { ok, warn, fail };

struct Finding {
    std::string check;  // a word: "btf", "CAP_BPF"
    Verdict verdict = Verdict::ok;
    std::string found;     // the state found; may contain paths and names from anywhere
    std::string costs;     // what does not work because of it; empty for most that is ok
    std::string remedy{};  // what to do about it, a command if there is one; empty if nothing is
};

// ok: everything works. warn: the exporter runs, but something is missing. fail: it does not start,
// or would count nothing.
[[nodiscard]] Verdict overall(std::span<const Finding> findings);

// 0, 1 and 2, in the order of the verdicts.
[[nodiscard]] int exit_code(Verdict verdict);

// A line for each, a summary line, and what to do about what is missing.
[[nodiscard]] std::string to_text(std::span<const Finding> findings);
// An object: "verdict", and "checks" with each one's "check", "verdict", "found",
// "costs" and, if there is one, "remedy".
[[nodiscard]] std::string to_json(std::span<const Finding> findings);

}  // namespace gpusnoop::doctor
