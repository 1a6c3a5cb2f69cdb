from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.optim import SGD

from spt.probes.linear_classifier import LinearClassifier, features

# b=6 images, D=5, C=3


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(6, 5, generator=generator), torch.randint(0, 3, (6,), generator=generator)) for _ in range(count)
    ]


def test_steps_equal_autograd_and_torchs_sgd() -> None:
    classifier = LinearClassifier(3, lr=0.7, momentum=0.9, weight_decay=0.02)
    weights, biases = torch.zeros(3, 5, requires_grad=True), torch.zeros(3, requires_grad=True)
    groups: list[dict[str, list[torch.Tensor] | float]]
    groups = [{"params": [weights], "weight_decay": 0.02}, {"params": [biases]}]
    optimizer = SGD(groups, lr=0.7, momentum=0.9)
    for embeddings, labels in batches(4):
        classifier.add(embeddings, labels)
        classifier.step()
        inputs = F.layer_norm(embeddings, (5,)) / 5**0.5
        optimizer.zero_grad()
        F.cross_entropy(inputs @ weights.T + biases, labels).backward()
        optimizer.step()
    expected = torch.cat([weights, biases[:, None]], dim=1).detach()
    torch.testing.assert_close(classifier.state_dict()["weights"], expected)


def test_two_micro_batches_make_the_step_of_their_concatenation() -> None:
    (first, first_labels), (second, second_labels) = batches(2)
    apart = LinearClassifier(3, lr=1.0, momentum=0.9, weight_decay=0.0)
    apart.add(first[:2], first_labels[:2])
    apart.add(second, second_labels)
    apart.step()
    together = LinearClassifier(3, lr=1.0, momentum=0.9, weight_decay=0.0)
    together.add(torch.cat([first[:2], second]), torch.cat([first_labels[:2], second_labels]))
    together.step()
    torch.testing.assert_close(apart.state_dict()["weights"], together.state_dict()["weights"])


def test_images_without_a_label_teach_nothing() -> None:
    [(embeddings, labels)] = batches(1)
    labels[2:4] = -1
    some = LinearClassifier(3, lr=1.0, momentum=0.0, weight_decay=0.0)
    some.add(embeddings, labels)
    some.step()
    only = LinearClassifier(3, lr=1.0, momentum=0.0, weight_decay=0.0)
    only.add(embeddings[labels >= 0], labels[labels >= 0])
    only.step()
    torch.testing.assert_close(some.state_dict()["weights"], only.state_dict()["weights"])


def test_a_prediction_does_not_depend_on_the_rest_of_its_batch() -> None:
    """Trap 84."""
    [(embeddings, labels)] = batches(1)
    classifier = LinearClassifier(3, lr=1.0, momentum=0.0, weight_decay=0.0)
    classifier.add(embeddings, labels)
    classifier.step()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(classifier.logits(embeddings)[order], classifier.logits(embeddings[order]))
    torch.testing.assert_close(classifier.logits(embeddings)[2:3], classifier.logits(embeddings[2:3]))


def test_features_have_mean_zero_and_length_one_at_any_scale() -> None:
    embeddings = 100 * torch.randn(6, 5, generator=torch.Generator().manual_seed(1)) + 30
    inputs = features(embeddings.to(torch.bfloat16))
    assert inputs.dtype == torch.float32
    torch.testing.assert_close(inputs[:, :-1].norm(dim=1), torch.ones(6), rtol=1e-4, atol=0)
    torch.testing.assert_close(inputs[:, :-1].mean(dim=1), torch.zeros(6), rtol=0, atol=1e-6)
    assert torch.equal(inputs[:, -1], torch.ones(6))


def test_a_classifier_goes_on_from_its_state() -> None:
    data = batches(4)
    whole = LinearClassifier(3, lr=1.0, momentum=0.9, weight_decay=0.1)
    resumed = LinearClassifier(3, lr=1.0, momentum=0.9, weight_decay=0.1)
    for i, (embeddings, labels) in enumerate(data):
        whole.add(embeddings, labels)
        whole.step()
        if i == 1:
            resumed.load_state_dict(whole.state_dict())
        if i > 1:
            resumed.add(embeddings, labels)
            resumed.step()
    assert torch.equal(whole.state_dict()["weights"], resumed.state_dict()["weights"])
