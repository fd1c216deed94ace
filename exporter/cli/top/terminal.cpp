#include "exporter/cli/top/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "exporter/cli/top/text.h"

namespace gpusnoop::top {

namespace {

constexpr const char *enter =
    "\033[?1049h\033[?25l\033[?7l";  // alternate screen, no cursor, no wrapped lines
constexpr const char *leave = "\033[?7h\033[?25h\033[?1049l";  // and back
constexpr const char *home = "\033[H";
constexpr const char *rest_of_line = "\033[K";  // erases it
constexpr const char *rest_of_screen = "\033[J";

}  // namespace

Size terminal_size(int fd) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return {};
    }
    return {size.ws_row, size.ws_col};
}

std::string screen_text(const std::vector<std::string> &lines, Size size) {
    std::string text = home;
    for (std::size_t i = 0; i < std::min(lines.size(), size.rows); i++) {
        // No line break after the last row, which would scroll.
        text += (i == 0 ? "" : "\r\n") + cut(lines[i], size.columns);
        // In the last column, the sequence would erase the character there.
        text += width_of(lines[i]) < size.columns ? rest_of_line : "";
    }
    return text + (lines.size() < size.rows ? rest_of_screen : "");
}

Terminal::Terminal(Output &output, int keys_fd) : output_(output), keys_fd_(keys_fd) {
    termios settings{};
    if (::tcgetattr(keys_fd_, &settings) == 0) {
        before_ = settings;
        settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C stays a signal
        settings.c_cc[VMIN] = 0;
        settings.c_cc[VTIME] = 0;
        (void)::tcsetattr(keys_fd_, TCSANOW, &settings);
    }
    output_.add(enter);
    output_.flush();
}

Terminal::~Terminal() {
    output_.add(leave);
    output_.flush();
    if (before_) {
        (void)::tcsetattr(keys_fd_, TCSAFLUSH, &*before_);
    }
}

void Terminal::draw(const std::vector<std::string> &lines, Size size) {
    output_.add(screen_text(lines, size));
    output_.flush();
}

}  // namespace gpusnoop::top
