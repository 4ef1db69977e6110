#include "storage/listener.hpp"

namespace dovetail::storage {

void Listener::start() {
  if (thread_.joinable()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Listener::stop() {
  thread_ = {};  // joins
}

void Listener::run(const std::stop_token& stop) {
  try {
    database_.listen(stop, [this](bool hears) {
      hears_others_ = hears;
      changes_.ring();
    });
  } catch (const std::exception& error) {
    log_.write(LogLevel::error, "platform.listener_failed",
               {{"store", database_.name()}, {"error", error.what()}});
  }
  hears_others_ = false;
  changes_.ring();
}

}  // namespace dovetail::storage
