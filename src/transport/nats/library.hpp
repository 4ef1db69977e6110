// The handles of libnats with owners.
#pragma once

#include <nats/nats.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail::transport::nats {

struct Deleter {
  void operator()(natsConnection* handle) const { natsConnection_Destroy(handle); }
  void operator()(natsSubscription* handle) const { natsSubscription_Destroy(handle); }
  void operator()(natsOptions* handle) const { natsOptions_Destroy(handle); }
  void operator()(natsMsg* handle) const { natsMsg_Destroy(handle); }
};

using ConnectionPtr = std::unique_ptr<natsConnection, Deleter>;
using SubscriptionPtr = std::unique_ptr<natsSubscription, Deleter>;
using OptionsPtr = std::unique_ptr<natsOptions, Deleter>;
using MessagePtr = std::unique_ptr<natsMsg, Deleter>;

/// The words of libnats for a failed call of this thread, without the place in its sources.
inline std::string words_of(natsStatus status) {
  natsStatus last = NATS_OK;
  const char* text = nats_GetLastError(&last);
  std::string_view detail = text == nullptr ? "" : text;
  const auto place = detail.starts_with('(') ? detail.find("): ") : std::string_view::npos;
  if (place != std::string_view::npos) detail.remove_prefix(place + 3);
  std::string words = natsStatus_GetText(status);
  if (last == status && !detail.empty() && detail != words) words += ": " + std::string{detail};
  return words;
}

inline void require(natsStatus status, const std::string& step) {
  if (status != NATS_OK) throw std::runtime_error(step + ": " + words_of(status));
}

}  // namespace dovetail::transport::nats
