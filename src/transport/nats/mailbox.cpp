#include "transport/nats/mailbox.hpp"

#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "transport/nats/pub_ack.hpp"

namespace dovetail::transport::nats {
namespace {

/// The mailboxes by their numbers.
class Mailboxes {
 public:
  std::uintptr_t next_number() {
    std::lock_guard lock(mutex_);
    return ++last_;
  }
  void add(std::uintptr_t number, const std::shared_ptr<Mailbox>& mailbox) {
    std::lock_guard lock(mutex_);
    mailboxes_[number] = mailbox;
  }
  void remove(std::uintptr_t number) {
    std::lock_guard lock(mutex_);
    mailboxes_.erase(number);
  }
  std::shared_ptr<Mailbox> find(void* closure) {
    std::lock_guard lock(mutex_);
    const auto found = mailboxes_.find(reinterpret_cast<std::uintptr_t>(closure));
    return found == mailboxes_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::uintptr_t last_ = 0;
  std::unordered_map<std::uintptr_t, std::weak_ptr<Mailbox>> mailboxes_;
};

Answer read_answer(natsMsg* message) {
  const std::string_view subject = natsMsg_GetSubject(message);
  const auto digits = subject.substr(subject.rfind('.') + 1);
  Answer answer;
  std::from_chars(digits.data(), digits.data() + digits.size(), answer.number);
  answer.no_responders = natsMsg_IsNoResponders(message);
  if (!answer.no_responders) {
    answer.outcome = outcome_of(
        {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
  }
  return answer;
}

/// Never destroyed: callbacks may come at the end of the process.
Mailboxes& mailboxes() {
  static auto* const all = new Mailboxes;
  return *all;
}

}  // namespace

std::shared_ptr<Mailbox> Mailbox::create(MailKind kind) {
  const auto number = mailboxes().next_number();
  std::shared_ptr<Mailbox> mailbox{new Mailbox(number, kind)};
  mailboxes().add(number, mailbox);
  return mailbox;
}

Mailbox::~Mailbox() {
  mailboxes().remove(number_);
}

void* Mailbox::closure() const {
  return reinterpret_cast<void*>(number_);  // NOLINT(performance-no-int-to-ptr): never used as one
}

bool Mailbox::has_enough() const {
  return mail_.messages.size() + mail_.answers.size() >= enough_ || !mail_.errors.empty() ||
         mail_.closed;
}

Mail Mailbox::take(std::size_t enough, MonoTime deadline, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  enough_ = enough;
  arrival_.wait_until(lock, stop, deadline, [&] { return has_enough(); });
  Mail taken{.closed = mail_.closed};
  taken.messages.swap(mail_.messages);
  taken.answers.swap(mail_.answers);
  taken.errors.swap(mail_.errors);
  return taken;
}

void Mailbox::put(const std::function<void(Mail&)>& add) {
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    add(mail_);
    wakes = has_enough();
  }
  if (wakes) arrival_.notify_all();
}

void Mailbox::on_message(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
  MessagePtr owned{message};
  const auto mailbox = mailboxes().find(closure);
  if (!mailbox) return;
  if (mailbox->kind_ == MailKind::answers) {
    auto answer = read_answer(message);
    mailbox->put([&](Mail& mail) { mail.answers.push_back(std::move(answer)); });
  } else {
    mailbox->put([&](Mail& mail) { mail.messages.push_back(std::move(owned)); });
  }
}

void Mailbox::on_error(natsConnection*, natsSubscription*, natsStatus status, void* closure) {
  const auto text = words_of(status);
  if (const auto mailbox = mailboxes().find(closure)) {
    mailbox->put([&](Mail& mail) { mail.errors.push_back(text); });
  }
}

void Mailbox::on_closed(natsConnection*, void* closure) {
  if (const auto mailbox = mailboxes().find(closure)) {
    mailbox->put([](Mail& mail) { mail.closed = true; });
  }
}

}  // namespace dovetail::transport::nats
