#include "exporter/cli/top/top.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "exporter/base/fd.h"
#include "exporter/base/output.h"
#include "exporter/cli/top/client/client.h"
#include "exporter/cli/top/client/session.h"
#include "exporter/cli/top/programs_view.h"
#include "exporter/cli/top/terminal.h"

namespace gpusnoop::top {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds query_patience{5'000};  // for a response
constexpr std::size_t plain_rows = 20;
constexpr const char *keys_text = "q quit  p programs  f functions  ? help";

std::unique_ptr<View> view_of(const Options &options, By by) {
    if (by == By::program) {
        return std::make_unique<ProgramsView>(options.address, options.telemetry_path,
                                              options.sort == Sort::errors);
    }
    return std::make_unique<Session>(options.address.text(), options.sort.value_or(Sort::calls),
                                     by);
}

// Without --by. Only programs have the errors of all CUDA calls.
By default_by(const std::optional<Sort> &sort) {
    return sort && *sort != Sort::errors ? By::function : By::program;
}

// A descriptor from which these signals, blocked from now on, can be read.
Fd signals_of(std::initializer_list<int> numbers) {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : numbers) {
        sigaddset(&set, number);
    }
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

class Top {
public:
    Top(const Options &options, std::unique_ptr<Client> client)
        : options_(options),
          signals_{.stop = signals_of({SIGINT, SIGTERM, SIGHUP}),
                   .window = signals_of({SIGWINCH, SIGTSTP})},
          output_(STDOUT_FILENO, signals_.stop.get()),
          client_(std::move(client)),
          view_(view_of(options, options.by.value_or(default_by(options.sort)))) {
        if (!options.once && !options.batch && ::isatty(STDOUT_FILENO) == 1) {
            terminal_.emplace(output_, STDIN_FILENO);
        }
    }

    Result<> run();

private:
    void poll_events();
    void on_window_signals();
    void on_keys();
    void show(By by);
    void ask();
    void on_answer(const Result<Answer> &answer);
    void draw();
    [[nodiscard]] std::vector<std::string> table(Size size) const;
    void print();
    void suspend();

    Options options_;
    struct Signals {
        Fd stop;
        Fd window;
    };
    Signals signals_;
    Output output_;
    std::unique_ptr<Client> client_;
    std::unique_ptr<View> view_;
    std::optional<Terminal> terminal_;
    bool has_keys_ = ::isatty(STDIN_FILENO) == 1;
    bool shows_help_ = false;
    bool done_ = false;
    struct Query {
        bool is_open = false;
        steady_clock::time_point asked{};
        steady_clock::time_point next = steady_clock::now();
    };
    Query query_;
    std::string said_;  // the last problem, where there is no screen to keep it on
    std::optional<Error> failure_;
    std::size_t tables_ = 0;
};

Result<> Top::run() {
    if (!signals_.stop || !signals_.window) {
        return fail_errno("signals and events");
    }
    if (terminal_) {
        draw();
    }
    while (!done_ && !output_.closed()) {
        const auto now = steady_clock::now();
        if (query_.is_open && now - query_.asked >= query_patience) {
            client_->give_up();
            on_answer(fail("cannot reach " + options_.address.text() +
                           ": it did not answer within 5 seconds"));
        } else if (!query_.is_open && now >= query_.next) {
            ask();
            query_.next = now + options_.interval;
        }
        poll_events();
    }
    terminal_.reset();
    if (failure_) {
        return tl::unexpected(*failure_);
    }
    return output_.error() != 0 ? Result<>(fail_errno("write the table", output_.error()))
                                : Result<>();
}

// Waits for the first event, and handles it.
void Top::poll_events() {
    const auto until = query_.is_open ? query_.asked + query_patience : query_.next;
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    const int keys = terminal_ && has_keys_ ? STDIN_FILENO : -1;
    std::array<pollfd, 5> fds{
        pollfd{signals_.stop.get(), POLLIN, 0}, pollfd{signals_.window.get(), POLLIN, 0},
        pollfd{client_->fd(), POLLIN, 0}, pollfd{keys, POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0}};
    const int timeout = static_cast<int>(std::max<milliseconds::rep>(left.count(), 0));
    if (::poll(fds.data(), fds.size(), timeout) <= 0) {
        return;
    }
    constexpr short broken = POLLERR | POLLHUP | POLLNVAL;
    done_ = done_ || (fds[0].revents & POLLIN) != 0 || (fds[4].revents & broken) != 0;
    if ((fds[1].revents & POLLIN) != 0) {
        on_window_signals();
    }
    if ((fds[2].revents & POLLIN) != 0) {
        if (const auto answer = client_->take(); answer && query_.is_open) {
            on_answer(*answer);
        }
    }
    if (fds[3].revents != 0) {
        on_keys();
    }
}

void Top::on_window_signals() {
    signalfd_siginfo info{};
    bool suspends = false;
    while (::read(signals_.window.get(), &info, sizeof info) == sizeof info) {
        suspends = suspends || info.ssi_signo == SIGTSTP;
    }
    if (suspends) {
        suspend();
    } else if (terminal_) {
        draw();
    }
}

// Suspends as Ctrl-Z does, with the terminal restored.
void Top::suspend() {
    const bool had_terminal = terminal_.has_value();
    terminal_.reset();
    ::raise(SIGSTOP);
    if (had_terminal) {
        terminal_.emplace(output_, STDIN_FILENO);
        draw();
    }
}

void Top::on_keys() {
    std::array<char, 64> keys{};
    const ssize_t got = ::read(STDIN_FILENO, keys.data(), keys.size());
    has_keys_ = got > 0;  // else the terminal has no more input
    for (ssize_t i = 0; i < got; i++) {
        const char key = keys.at(static_cast<std::size_t>(i));
        done_ = done_ || key == 'q' || key == 'Q';
        shows_help_ = !shows_help_ && (key == '?' || key == 'h');
        if (key == 'p' || key == 'f') {
            show(key == 'p' ? By::program : By::function);
        }
    }
    draw();
}

void Top::show(By by) {
    client_->give_up();
    view_ = view_of(options_, by);
    query_ = {};
}

void Top::ask() {
    client_->ask(view_->target());
    query_.is_open = true;
    query_.asked = steady_clock::now();
}

void Top::on_answer(const Result<Answer> &answer) {
    query_.is_open = false;
    view_->take(answer);
    if (view_->wants_more()) {
        ask();
    } else if (terminal_) {
        draw();
    } else {
        print();
    }
}

void Top::draw() {
    const Size size = terminal_size(STDOUT_FILENO);
    std::vector<std::string> lines = {view_->head(), view_->problem()};
    if (!view_->problem().empty()) {
        lines.back() += view_->answers() ? "" : "; trying again";
    } else {
        lines.back() = keys_text;
    }
    const std::vector<std::string> below = shows_help_ ? view_->help() : table(size);
    lines.insert(lines.end(), below.begin(), below.end());
    terminal_->draw(lines, size);
}

std::vector<std::string> Top::table(Size size) const {
    constexpr std::size_t lines_above = 3;
    const std::size_t room = size.rows > lines_above ? size.rows - lines_above : 0;
    const auto table = view_->lines(std::min(room, options_.rows.value_or(room)), size.columns);
    if (!table && view_->problem().empty()) {
        return {"measuring"};
    }
    return table.value_or(std::vector<std::string>());
}

void Top::print() {
    const std::string &problem = view_->problem();
    if (!view_->answers() && (options_.once || !view_->has_answered())) {
        failure_ = Error{problem};
        done_ = true;
        return;
    }
    if (!problem.empty()) {  // the exporter may respond later, or does again
        if (problem != said_) {
            std::fprintf(stderr, "%s\n", problem.c_str());
        }
        said_ = problem;
        return;
    }
    said_.clear();
    if (const auto table = view_->lines(options_.rows.value_or(plain_rows))) {
        output_.add((tables_++ == 0 ? "" : "\n") + view_->head() + "\n");
        for (const std::string &line : *table) {
            output_.add(line + "\n");
        }
        output_.flush();
        done_ = done_ || options_.once;
    }
}

}  // namespace

Result<> run(const Options &options) {
    auto client = Client::make(options.address, options.access);
    return client ? Top(options, *std::move(client)).run() : tl::unexpected(client.error());
}

}  // namespace gpusnoop::top
