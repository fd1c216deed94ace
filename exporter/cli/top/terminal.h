// The terminal while `top` uses all of it: the alternate screen, without a cursor, and keys that
// are read one by one and not shown.
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

// The current size of the terminal; 24 x 80 if it is not known.
[[nodiscard]] Size terminal_size(int fd);

// Restores the terminal when destroyed.
class Terminal {
public:
    // `output` writes to the terminal, and outlives this. `keys_fd` reads the keys; if it is not a
    // terminal, there are no keys.
    Terminal(Output &output, int keys_fd);
    ~Terminal();
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;

    // Shows these lines from the top, each cut to the width, and nothing else. Lines that do not
    // fit are left out.
    void draw(const std::vector<std::string> &lines, Size size);

private:
    Output &output_;
    int keys_fd_;
    std::optional<termios> before_;
};

// The text that draws these lines over the screen.
[[nodiscard]] std::string screen_text(const std::vector<std::string> &lines, Size size);

}  // namespace gpusnoop::top
