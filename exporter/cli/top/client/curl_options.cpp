// The options of libcurl for each request.
#include <cstddef>
#include <string>

#include "exporter/cli/top/client/curl_client.h"

namespace gpusnoop::top {

namespace {

constexpr long patience_ms = 5'000;

}  // namespace

std::size_t CurlClient::on_body(const char *data, std::size_t size, std::size_t count, void *self) {
    std::string &body = static_cast<CurlClient *>(self)->body_;
    body.append(data, size * count);
    return body.size() > max_bytes ? 0 : size * count;
}

void CurlClient::set_options(const std::string &url) {
    set(CURLOPT_URL, url.c_str());
    if (!address_.unix_path.empty()) {
        set(CURLOPT_UNIX_SOCKET_PATH, address_.unix_path.c_str());
    }
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PROXY, "");
    set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_TIMEOUT_MS, patience_ms);
    set(CURLOPT_NOSIGNAL, 1L);
    // A slow name look-up does not delay the program's end.
    set(CURLOPT_QUICK_EXIT, 1L);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_WRITEFUNCTION, &CurlClient::on_body);
    set(CURLOPT_WRITEDATA, this);
    set_access();
}

void CurlClient::set_access() {
    if (!login_.empty()) {
        const std::size_t colon = login_.find(':');
        set(CURLOPT_USERNAME, login_.substr(0, colon).c_str());
        set(CURLOPT_PASSWORD, login_.substr(colon + 1).c_str());
    }
    set(CURLOPT_NETRC, access_.netrc ? static_cast<long>(CURL_NETRC_REQUIRED)
                                     : static_cast<long>(CURL_NETRC_IGNORED));
    if (!access_.ca_file.empty()) {
        set(CURLOPT_CAINFO, access_.ca_file.c_str());
        set(CURLOPT_CAPATH, static_cast<const char *>(nullptr));  // only the file's authorities
    }
    if (!access_.cert_file.empty()) {
        set(CURLOPT_SSLCERT, access_.cert_file.c_str());
        set(CURLOPT_SSLKEY,
            (access_.key_file.empty() ? access_.cert_file : access_.key_file).c_str());
    }
    if (access_.skip_verify) {
        set(CURLOPT_SSL_VERIFYPEER, 0L);
        set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

}  // namespace gpusnoop::top
