// The terminal while `top` has all of it: the alternate screen, without a cursor, and keys that are
// read one by one without being shown.
#pragma once

#include <termios.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/output.h"

namespace gpusnoop::top {

struct Size {
    std::size_t rows = 24;
    std::size_t columns = 80;
};

// The size that the terminal has now; 24 x 80 where it does not know.
[[nodiscard]] Size terminal_size(int fd);

// Gives the terminal back as it was when it goes.
class Terminal {
public:
    // `output` writes to the terminal, and outlives this. `keys_fd` is where the keys come from;
    // where that is no terminal, there are none.
    Terminal(Output &output, int keys_fd);
    ~Terminal();
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;

    // Shows these lines from the top, each cut to the width, and nothing else. Those that do not
    // fit are left out.
    void draw(const std::vector<std::string> &lines, Size size);

private:
    Output &output_;
    int keys_fd_;
    std::optional<termios> before_;
};

// The text that draws these lines in place.
[[nodiscard]] std::string screen_text(const std::vector<std::string> &lines, Size size);

}  // namespace gpusnoop::top
