#include "exporter/http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace gpusnoop::http {

namespace {

// Not all of 127.0.0.0/8: service meshes hand over what comes from elsewhere from 127.0.0.6.
bool is_loopback(const sockaddr_in &address) {
    return address.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

bool is_loopback(const sockaddr_in6 &address) {
    const in6_addr &ip = address.sin6_addr;
    sockaddr_in mapped{};
    std::memcpy(&mapped.sin_addr, &ip.s6_addr[12], sizeof(mapped.sin_addr));
    return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && is_loopback(mapped));
}

}  // namespace

bool is_local_peer(int socket) {
    sockaddr_storage storage{};
    socklen_t size = sizeof(storage);
    if (::getpeername(socket, reinterpret_cast<sockaddr *>(&storage), &size) != 0) {
        return false;
    }
    if (storage.ss_family == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, &storage, sizeof(address));
        return is_loopback(address);
    }
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 address{};
        std::memcpy(&address, &storage, sizeof(address));
        return is_loopback(address);
    }
    return storage.ss_family == AF_UNIX;
}

bool demands_identity(const config::WebConfig &config) {
    return !config.users.empty() ||
           (config.tls && config.tls->client_auth == config::ClientAuth::require_and_verify);
}

}  // namespace gpusnoop::http
