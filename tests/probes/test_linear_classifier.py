from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.optim import SGD

from spt.probes.linear_classifier import LinearClassifier

# b=6 images, D=5, C=3


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(6, 5, generator=generator), torch.randint(0, 3, (6,), generator=generator)) for _ in range(count)
    ]


def probe(
    *, lr: float = 1.0, momentum: float = 0.0, weight_decay: float = 0.0, statistics_momentum: float = 0.8
) -> LinearClassifier:
    """A classifier that has measured one batch of its own, other than those of the tests."""
    classifier = LinearClassifier(
        3, lr=lr, momentum=momentum, weight_decay=weight_decay, statistics_momentum=statistics_momentum
    )
    classifier.add(2 * torch.randn(7, 5, generator=torch.Generator().manual_seed(9)) + 3, torch.zeros(7).long())
    classifier.step()
    return classifier


def test_steps_equal_autograd_and_torchs_sgd() -> None:
    classifier = probe(lr=0.7, momentum=0.9, weight_decay=0.02)
    mean, square = classifier.state_dict()["statistics"]
    weights, biases = torch.zeros(3, 5, requires_grad=True), torch.zeros(3, requires_grad=True)
    groups: list[dict[str, list[torch.Tensor] | float]]
    groups = [{"params": [weights], "weight_decay": 0.02}, {"params": [biases]}]
    optimizer = SGD(groups, lr=0.7, momentum=0.9)
    for embeddings, labels in batches(4):
        classifier.add(embeddings, labels)
        classifier.step()
        inputs = (embeddings - mean) / (square - mean**2 + 1e-5).sqrt() / 5**0.5
        mean, square = 0.8 * mean + 0.2 * embeddings.mean(0), 0.8 * square + 0.2 * embeddings.square().mean(0)
        optimizer.zero_grad()
        F.cross_entropy(inputs @ weights.T + biases, labels).backward()
        optimizer.step()
    expected = torch.cat([weights, biases[:, None]], dim=1).detach()
    torch.testing.assert_close(classifier.state_dict()["weights"], expected)


def test_two_micro_batches_make_the_step_of_their_concatenation() -> None:
    (first, first_labels), (second, second_labels) = batches(2)
    apart = probe(momentum=0.9, weight_decay=0.0)
    apart.add(first[:2], first_labels[:2])
    apart.add(second, second_labels)
    apart.step()
    together = probe(momentum=0.9, weight_decay=0.0)
    together.add(torch.cat([first[:2], second]), torch.cat([first_labels[:2], second_labels]))
    together.step()
    torch.testing.assert_close(apart.state_dict()["weights"], together.state_dict()["weights"])


def test_images_without_a_label_teach_nothing() -> None:
    [(embeddings, labels)] = batches(1)
    labels[2:4] = -1
    some = probe(momentum=0.0, weight_decay=0.0)
    some.add(embeddings, labels)
    some.step()
    only = probe(momentum=0.0, weight_decay=0.0)
    only.add(embeddings[labels >= 0], labels[labels >= 0])
    only.step()
    torch.testing.assert_close(some.state_dict()["weights"], only.state_dict()["weights"])


def test_a_prediction_does_not_depend_on_the_rest_of_its_batch() -> None:
    """Trap 84."""
    [(embeddings, labels)] = batches(1)
    classifier = probe(momentum=0.0, weight_decay=0.0)
    classifier.add(embeddings, labels)
    classifier.step()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(classifier.logits(embeddings)[order], classifier.logits(embeddings[order]))
    torch.testing.assert_close(classifier.logits(embeddings)[2:3], classifier.logits(embeddings[2:3]))


def test_the_first_step_measures_and_does_not_move() -> None:
    [(embeddings, labels)] = batches(1)
    classifier = LinearClassifier(3, lr=1.0, momentum=0.0, weight_decay=0.0, statistics_momentum=0.9)
    classifier.add(embeddings, labels)
    classifier.step()
    assert classifier.state_dict()["weights"].abs().max() == 0
    expected = torch.stack([embeddings.mean(0), embeddings.square().mean(0)])
    torch.testing.assert_close(classifier.state_dict()["statistics"], expected)


def test_a_direction_that_all_images_share_does_not_hide_what_tells_them_apart() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 3, (60,), generator=generator)
    embeddings = F.one_hot(labels, 5) * 0.01 + torch.tensor([50.0, 0.0, 0.0, 80.0, 0.0])
    classifier = LinearClassifier(3, lr=10.0, momentum=0.9, weight_decay=0.0, statistics_momentum=0.9)
    for _ in range(20):
        classifier.add(embeddings, labels)
        classifier.step()
    assert torch.equal(classifier.logits(embeddings).argmax(1), labels)


def test_a_classifier_goes_on_from_its_state() -> None:
    data = batches(4)
    whole = probe(momentum=0.9, weight_decay=0.1)
    resumed = probe(momentum=0.9, weight_decay=0.1)
    for i, (embeddings, labels) in enumerate(data):
        whole.add(embeddings, labels)
        whole.step()
        if i == 1:
            resumed.load_state_dict(whole.state_dict())
        if i > 1:
            resumed.add(embeddings, labels)
            resumed.step()
    assert torch.equal(whole.state_dict()["weights"], resumed.state_dict()["weights"])
