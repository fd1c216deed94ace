// A program in a terminal of its own, and `top` there.
#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/base/fd.h"
#include "tests/harness/exporter.h"

namespace harness {

constexpr const char *enter = "\033[?1049h\033[?25l\033[?7l";
constexpr const char *leave = "\033[?7h\033[?25h\033[?1049l";

inline std::string address_of(const Exporter &exporter) {
    return "http://127.0.0.1:" + std::to_string(exporter.port());
}

inline bool same(const termios &a, const termios &b) {
    return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
           a.c_lflag == b.c_lflag && std::ranges::equal(a.c_cc, b.c_cc);
}

// A program in a terminal of its own.
class InTerminal {
public:
    InTerminal(std::vector<std::string> command, unsigned short rows, unsigned short columns) {
        winsize size{rows, columns, 0, 0};
        int master = -1;
        std::vector<char *> arguments;
        for (std::string &one : command) {
            arguments.push_back(one.data());
        }
        arguments.push_back(nullptr);
        int slave = -1;
        REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
        master_ = gpusnoop::Fd(master);
        slave_ = gpusnoop::Fd(slave);  // kept, so that the settings outlive the program
        before_ = settings();
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::login_tty(slave);
            ::execvp(arguments.front(), arguments.data());
            ::_exit(127);
        }
    }
    ~InTerminal() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }
    InTerminal(const InTerminal &) = delete;
    InTerminal &operator=(const InTerminal &) = delete;

    void type(const std::string &keys) const {
        REQUIRE(::write(master_.get(), keys.data(), keys.size()) ==
                static_cast<ssize_t>(keys.size()));
    }
    void resize(unsigned short rows, unsigned short columns) const {
        winsize size{rows, columns, 0, 0};
        REQUIRE(::ioctl(master_.get(), TIOCSWINSZ, &size) == 0);
    }
    void signal(int number) const { ::kill(pid_, number); }

    // All that it has written so far.
    const std::string &output() {
        std::array<char, 4096> piece{};
        pollfd ready{master_.get(), POLLIN, 0};
        while (::poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0) {
            const ssize_t got = ::read(master_.get(), piece.data(), piece.size());
            if (got <= 0) {
                break;
            }
            output_.append(piece.data(), static_cast<std::size_t>(got));
        }
        return output_;
    }
    void wait_for(const std::string &text, std::size_t from = 0) {
        eventually("'" + text + "' on the terminal",
                   [&] { return output().find(text, from) != std::string::npos; });
    }
    // The lines of the last whole screen.
    std::vector<std::string> screen() {
        const std::string home = "\033[H";
        const std::size_t end = output().rfind(home);
        const std::size_t begin = output_.rfind(home, end - 1);
        REQUIRE(begin != std::string::npos);
        std::string text = output_.substr(begin + home.size(), end - begin - home.size());
        for (const std::string part : {"\033[K", "\033[J", "\r"}) {
            for (auto at = text.find(part); at != std::string::npos; at = text.find(part)) {
                text.erase(at, part.size());
            }
        }
        std::istringstream stream(text);
        std::vector<std::string> lines;
        for (std::string line; std::getline(stream, line);) {
            lines.push_back(line);
        }
        return lines;
    }
    [[nodiscard]] termios settings() const {
        termios now{};
        REQUIRE(::tcgetattr(slave_.get(), &now) == 0);
        return now;
    }
    [[nodiscard]] const termios &settings_before() const { return before_; }
    int wait() {
        int status = 0;
        eventually("top to end", [&] {
            (void)output();  // a terminal that nobody reads from would hold it up
            return ::waitpid(pid_, &status, WNOHANG) == pid_;
        });
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    gpusnoop::Fd master_;
    gpusnoop::Fd slave_;
    termios before_{};
    pid_t pid_ = -1;
    std::string output_;
};

// The command, as it begins with GPU programs.
inline std::vector<std::string> top_programs(const std::string &address,
                                             std::vector<std::string> more) {
    std::vector<std::string> command = {exporter_binary(), "top", "--address=" + address};
    command.insert(command.end(), more.begin(), more.end());
    return command;
}

}  // namespace harness
