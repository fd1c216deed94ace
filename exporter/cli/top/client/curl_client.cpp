#include "exporter/cli/top/client/curl_client.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include "exporter/base/text/text.h"

namespace gpusnoop::top {

Result<std::unique_ptr<Client>> CurlClient::make(const Libcurl &curl, Address address,
                                                 const Access &access) {
    std::string login;
    if (!access.login_file.empty()) {
        auto read = read_login(access.login_file);
        if (!read) {
            return tl::unexpected(read.error());
        }
        login = *std::move(read);
    }
    std::unique_ptr<CurlClient> client(
        new CurlClient(curl, std::move(address), access, std::move(login)));
    if (client->multi_ == nullptr || !client->epoll_ || !client->timer_) {
        return fail_errno("prepare requests");
    }
    return client;
}

CurlClient::CurlClient(const Libcurl &curl, Address address, Access access, std::string login)
    : curl_(curl),
      address_(std::move(address)),
      access_(std::move(access)),
      login_(std::move(login)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      multi_(curl.multi_init(), curl.multi_cleanup),
      easy_(nullptr, curl.easy_cleanup) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = timer_.get()}};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
    if (multi_ != nullptr) {
        curl_.multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &CurlClient::on_socket);
        curl_.multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
        curl_.multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &CurlClient::on_timer);
        curl_.multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
    }
}

int CurlClient::on_socket(CURL * /*easy*/, curl_socket_t socket, int what, void *self,
                          void * /*known*/) {
    const int epoll = static_cast<CurlClient *>(self)->epoll_.get();
    if (what == CURL_POLL_REMOVE) {
        ::epoll_ctl(epoll, EPOLL_CTL_DEL, socket, nullptr);
        return 0;
    }
    epoll_event event{.events = ((what & CURL_POLL_IN) != 0 ? std::uint32_t{EPOLLIN} : 0) |
                                ((what & CURL_POLL_OUT) != 0 ? std::uint32_t{EPOLLOUT} : 0),
                      .data = {.fd = socket}};
    if (::epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0) {
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    }
    return 0;
}

int CurlClient::on_timer(CURLM * /*multi*/, long after_ms, void *self) {
    constexpr long ns_per_ms = 1'000'000;
    itimerspec when{};  // stops it
    if (after_ms >= 0) {
        when.it_value.tv_sec = after_ms / 1'000;
        when.it_value.tv_nsec = after_ms == 0 ? 1 : after_ms % 1'000 * ns_per_ms;
    }
    return ::timerfd_settime(static_cast<CurlClient *>(self)->timer_.get(), 0, &when, nullptr);
}

void CurlClient::ask(const std::string &target) {
    give_up();
    body_.clear();
    error_.front() = '\0';
    refused_ = false;
    easy_.reset(curl_.easy_init());
    if (easy_ != nullptr) {
        set_options(address_.url() + target);
        curl_.multi_add_handle(multi_.get(), easy_.get());
        act(CURL_SOCKET_TIMEOUT, 0);
    }
}

void CurlClient::act(curl_socket_t socket, int events) {
    int running = 0;
    curl_.multi_socket_action(multi_.get(), socket, events, &running);
}

void CurlClient::give_up() {
    if (easy_ != nullptr) {
        curl_.multi_remove_handle(multi_.get(), easy_.get());
        easy_.reset();
    }
}

std::optional<Result<Answer>> CurlClient::take() {
    std::array<epoll_event, 8> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; i++) {
        const epoll_event &event = events.at(static_cast<std::size_t>(i));
        if (event.data.fd == timer_.get()) {
            on_timer(multi_.get(), -1, this);  // it has expired, and may be set again
            act(CURL_SOCKET_TIMEOUT, 0);
            continue;
        }
        act(event.data.fd,
            ((event.events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                ((event.events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                ((event.events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0));
    }
    int left = 0;
    while (const CURLMsg *const message = curl_.multi_info_read(multi_.get(), &left)) {
        if (message->msg == CURLMSG_DONE && message->easy_handle == easy_.get()) {
            auto ended = answer(message->data.result);
            give_up();
            return ended;
        }
    }
    return std::nullopt;
}

Result<Answer> CurlClient::answer(CURLcode code) {
    if (body_.size() > max_bytes) {
        return fail(address_.text() + " answered more than an exporter does");
    }
    if (code != CURLE_OK || refused_) {
        return fail("cannot reach " + address_.text() + ": " +
                    (refused_ ? "this libcurl is too old" : reason(code)));
    }
    long status = 0;
    curl_.easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return Answer{static_cast<int>(status), std::exchange(body_, {})};
}

// The exporter's own words, if libcurl's are about details of the protocol.
std::string CurlClient::reason(CURLcode code) const {
    long number = 0;
    curl_.easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &number);
    std::string text = error_.front() != '\0' ? error_.data() : curl_.easy_strerror(code);
    switch (code) {
        case CURLE_COULDNT_CONNECT:
            return number != 0 ? std::strerror(static_cast<int>(number)) : printable(text);
        case CURLE_UNSUPPORTED_PROTOCOL:  // of HTTP 0.9, which has no header
        case CURLE_WEIRD_SERVER_REPLY:
        case CURLE_GOT_NOTHING:
        case CURLE_RECV_ERROR:
            return address_.tls ? "there was no HTTP answer"
                                : "there was no HTTP answer (is it https?)";
        case CURLE_PARTIAL_FILE:
            return "the answer was cut off";
        case CURLE_OPERATION_TIMEDOUT:
            return "it did not answer within 5 seconds";
        case CURLE_PEER_FAILED_VERIFICATION:
            return to_valid_utf8(text, 128) + " (--ca-file names the authorities to trust)";
        default:
            return to_valid_utf8(text, 128);
    }
}

}  // namespace gpusnoop::top
