#include "server/databases.hpp"

namespace dovetail::server {

std::vector<std::string> Databases::keys() const {
  return platform_ != nullptr ? std::vector<std::string>{platform_->name()} : group_->keys();
}

std::shared_ptr<Platform> Databases::find(const std::string& key) const {
  if (platform_ != nullptr) {
    if (!key.empty() && key != platform_->name()) return nullptr;
    return {std::shared_ptr<void>{}, platform_};  // does not own it
  }
  if (!key.empty()) return group_->find(key);
  const auto keys = group_->keys();
  return keys.size() == 1 ? group_->find(keys.front()) : nullptr;
}

std::shared_ptr<const Sample> Databases::sample(std::chrono::milliseconds max_age) const {
  return platform_ != nullptr ? platform_->sample(max_age) : group_->sample(max_age);
}

MetricsSnapshot Databases::metrics() const {
  return platform_ != nullptr ? platform_->metrics() : group_->metrics();
}

}  // namespace dovetail::server
