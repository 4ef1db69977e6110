#include "cli/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "cli/file_descriptor.hpp"

namespace dovetail::cli {
namespace {

std::string taken_from_environment(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value != nullptr ? value : "";
  ::unsetenv(name);
  return text;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t number = 0;
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

ServiceManager::ServiceManager() : socket_(taken_from_environment("NOTIFY_SOCKET")) {
  const auto time = whole_number(taken_from_environment("WATCHDOG_USEC"));
  const auto process = taken_from_environment("WATCHDOG_PID");
  const bool is_ours = process.empty() || whole_number(process) == ::getpid();
  if (time && *time > 0 && is_ours) {
    interval_ = std::max(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds{*time / 2}),
        std::chrono::milliseconds{1});
  }
}

void ServiceManager::ready(const std::string& status) const {
  notify("READY=1\nSTATUS=" + status);
}

void ServiceManager::notify(const std::string& text) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';  // an abstract socket
  const auto size = offsetof(sockaddr_un, sun_path) + socket_.size();
  const FileDescriptor descriptor{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!descriptor.is_open()) return;
  static_cast<void>(::sendto(descriptor.number(), text.data(), text.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address),
                             static_cast<socklen_t>(size)));
}

}  // namespace dovetail::cli
