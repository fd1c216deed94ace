// Where the code of a frame lies in its file, for programs that look for names and lines
// themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace gpusnoop::symbols {

// A part of a file that processes have mapped to execute it.
struct CodeSegment {
    std::string file;      // the last part of its path, valid UTF-8
    std::string build_id;  // hexadecimal; empty: it has none
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct CodePlace {
    std::shared_ptr<const CodeSegment> segment;  // null: in no file
    std::uint64_t offset = 0;                    // of the call, in the file
};

}  // namespace gpusnoop::symbols
