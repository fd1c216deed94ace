// What the program of tests/fakes/syscalls says that it has done.
#pragma once

#include <string>

#include "tests/harness/process.h"

namespace harness {

// System calls as a 32-bit program makes them; some machines forbid all. It has printed "counted".
inline unsigned long compat_calls_of(const Process &process) {
    const std::string output = process.output();
    return std::stoul(output.substr(output.find("compat ") + 7));
}

}  // namespace harness
