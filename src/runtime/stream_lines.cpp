#include "runtime/stream_lines.hpp"

#include <algorithm>
#include <iterator>

namespace dovetail::runtime {

bool StreamLines::admit(const DeliveryPtr& delivery) {
  const auto& stream = delivery->claimed.message.stream;
  if (!stream) return true;
  auto& line = lines_[*stream];
  line.push_back(delivery);
  return line.size() == 1;
}

DeliveryPtr StreamLines::advance(const Delivery& delivery) {
  const auto& stream = delivery.claimed.message.stream;
  if (!stream) return nullptr;
  const auto found = lines_.find(*stream);
  if (found == lines_.end() || found->second.front().get() != &delivery) return nullptr;
  auto& line = found->second;
  line.pop_front();
  if (!line.empty()) return line.front();
  lines_.erase(found);
  return nullptr;
}

std::vector<DeliveryPtr> StreamLines::remove_successors(const Delivery& delivery) {
  const auto& stream = delivery.claimed.message.stream;
  if (!stream) return {};
  const auto found = lines_.find(*stream);
  if (found == lines_.end()) return {};
  auto& line = found->second;
  const auto place = std::ranges::find(line, &delivery, &DeliveryPtr::get);
  if (place == line.end()) return {};
  std::vector<DeliveryPtr> behind(std::next(place), line.end());
  line.erase(place, line.end());
  if (line.empty()) lines_.erase(found);
  return behind;
}

bool StreamLines::is_behind(const Delivery& delivery) const {
  const auto& stream = delivery.claimed.message.stream;
  if (!stream) return false;
  const auto found = lines_.find(*stream);
  return found != lines_.end() && found->second.front().get() != &delivery &&
         std::ranges::find(found->second, &delivery, &DeliveryPtr::get) != found->second.end();
}

std::vector<DeliveryPtr> StreamLines::take_waiting() {
  std::vector<DeliveryPtr> waiting;
  for (auto& [stream, line] : lines_) {
    std::move(std::next(line.begin()), line.end(), std::back_inserter(waiting));
    line.erase(std::next(line.begin()), line.end());
  }
  return waiting;
}

}  // namespace dovetail::runtime
