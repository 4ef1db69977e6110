#include "dovetail/kafka.hpp"

#include <mutex>
#include <stdexcept>

#include "transport/cloud_events.hpp"
#include "transport/kafka/group_member.hpp"
#include "transport/kafka/producer.hpp"

namespace dovetail {
namespace {

using transport::kafka::GroupMember;
using transport::kafka::Producer;
using KafkaOptionsPtr = std::shared_ptr<const KafkaOptions>;

class KafkaPublisher final : public Publisher {
 public:
  KafkaPublisher(KafkaOptionsPtr options, KafkaPublisherOptions own)
      : options_(std::move(options)), own_(std::move(own)) {
    if (own_.topic.empty()) throw std::invalid_argument("topic must not be empty");
    static_cast<void>(transport::filled(own_.topic, Message{}));
  }

  [[nodiscard]] std::string kind() const override { return "kafka"; }
  [[nodiscard]] std::string address() const override {
    return transport::kafka::shown_url(*options_);
  }

  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& call) override {
    return producer()->send(messages, own_.topic, call);
  }

  void probe(const TransportCall& call) override { producer()->require_cluster(call); }

  void close() noexcept override {
    std::shared_ptr<Producer> ended;  // without the mutex
    const std::lock_guard lock(mutex_);
    ended.swap(producer_);
  }

 private:
  std::shared_ptr<Producer> producer() {
    std::shared_ptr<Producer> spent;  // ends without the mutex
    const std::lock_guard lock(mutex_);
    if (producer_ && producer_->is_spent()) spent.swap(producer_);
    if (!producer_) producer_ = std::make_shared<Producer>(*options_);
    return producer_;
  }

  const KafkaOptionsPtr options_;
  const KafkaPublisherOptions own_;
  std::mutex mutex_;
  std::shared_ptr<Producer> producer_;
};

class KafkaConsumer final : public Consumer {
 public:
  KafkaConsumer(KafkaOptionsPtr options, KafkaConsumerOptions own)
      : options_(std::move(options)), own_(std::move(own)) {
    if (own_.group.empty()) throw std::invalid_argument("group must not be empty");
    if (own_.topics.empty()) throw std::invalid_argument("topics must name a topic");
  }

  [[nodiscard]] std::string kind() const override { return "kafka"; }
  [[nodiscard]] std::string address() const override {
    return transport::kafka::shown_url(*options_);
  }

  [[nodiscard]] std::vector<IncomingMessage> fetch(std::size_t most,
                                                   const TransportCall& call) override {
    const std::lock_guard lock(mutex_);
    if (!member_) member_ = std::make_unique<GroupMember>(*options_, own_, tags_);
    try {
      return member_->receive(most, call);
    } catch (...) {
      member_.reset();
      throw;
    }
  }

  void ack(std::span<const std::uint64_t> tags, const TransportCall& call) override {
    const std::lock_guard lock(mutex_);
    if (member_) member_->ack(tags, call);
  }

  void give_back(std::span<const std::uint64_t> tags, const TransportCall& call) override {
    const std::lock_guard lock(mutex_);
    if (!member_) return;
    try {
      member_->give_back(tags, call);
    } catch (const std::exception&) {
      member_.reset();  // a new member begins at the committed offsets
    }
  }

  void close() noexcept override {
    const std::lock_guard lock(mutex_);
    member_.reset();
  }

 private:
  const KafkaOptionsPtr options_;
  const KafkaConsumerOptions own_;
  std::mutex mutex_;  ///< One call at a time.
  std::uint64_t tags_ = 0;
  std::unique_ptr<GroupMember> member_;
};

}  // namespace

Kafka::Kafka(KafkaOptions options)
    : options_(std::make_shared<const KafkaOptions>(std::move(options))) {
  if (!options_->password.empty() && !options_->password_file.empty())
    throw std::invalid_argument("password and password_file are both given: give one of them");
  auto without_file = *options_;
  without_file.password_file.clear();
  static_cast<void>(transport::kafka::configuration(without_file));
}

std::shared_ptr<Publisher> Kafka::publisher(KafkaPublisherOptions options) const {
  return std::make_shared<KafkaPublisher>(options_, std::move(options));
}

std::shared_ptr<Consumer> Kafka::consumer(KafkaConsumerOptions options) const {
  return std::make_shared<KafkaConsumer>(options_, std::move(options));
}

}  // namespace dovetail
